// The memory of the emulated devices: pages of the host's, closed to the host.
//
// Every allocation is pages of its own without access rights; a kernel opens those of its arguments
// while it runs. Code that reads or writes device memory by its address, as no code can on hardware,
// ends with a segmentation fault here too.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Storage.h>
#include <c10/util/Exception.h>
#include <sys/mman.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

namespace emulated {

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
// Two, so that tensors of one device type can be on different devices.
constexpr c10::DeviceIndex kDevices = 2;
// What memory holds before it is written: NaN in floating point, -1 in integers.
constexpr int kUnwritten = 0xFF;

inline thread_local c10::DeviceIndex current_device = 0;

class Block {
 public:
  explicit Block(size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    data_ = mmap(nullptr, bytes, PROT_NONE, flags, -1, 0);
    TORCH_CHECK(data_ != MAP_FAILED, "emulated device: no memory for ", bytes, " bytes");
    madvise(data_, bytes, MADV_HUGEPAGE);  // large pages are opened and closed faster
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() {
    if (bytes_) munmap(data_, bytes_);
  }
  void open() { count(1); }
  void close() { count(-1); }
  void* data() const { return data_; }

 private:
  void count(int by) {
    if (bytes_ == 0) return;
    std::lock_guard<std::mutex> lock(rights());
    const bool was_open = kernels_ > 0;
    kernels_ += by;
    if (was_open != (kernels_ > 0))
      mprotect(data_, bytes_, kernels_ > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
  static std::mutex& rights() {
    static std::mutex mutex;
    return mutex;
  }

  void* data_ = nullptr;
  size_t bytes_;
  int kernels_ = 0;  // that use it now
};

using SharedBlock = std::shared_ptr<Block>;

inline void release(void* context) { delete static_cast<SharedBlock*>(context); }

struct DeviceMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto block = std::make_shared<Block>(bytes);
    block->open();
    if (bytes) std::memset(block->data(), kUnwritten, bytes);
    block->close();
    const c10::Device device(kDevice, current_device);
    return {block->data(), new SharedBlock(block), &release, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, size_t) const override {
    TORCH_CHECK(false, "emulated device: storages are copied by kernels only");
  }
};

inline DeviceMemory& device_memory() {
  static DeviceMemory memory;
  return memory;
}

// Keeps memory open to the host, until it is destroyed: a running kernel has one.
class Opened {
 public:
  Opened() = default;
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  ~Opened() {
    for (auto& block : blocks_) block->close();
  }
  void add(const c10::DataPtr& pointer) {
    if (!pointer.get()) return;
    TORCH_CHECK(
        pointer.get_deleter() == &release, "emulated device: this memory is not the device's");
    blocks_.push_back(*static_cast<SharedBlock*>(pointer.get_context()));
    blocks_.back()->open();
  }

 private:
  std::vector<SharedBlock> blocks_;
};

// Gives a storage new memory of this many bytes that begins as `bytes_of` begins.
inline void reallocate(const c10::Storage& storage, size_t bytes, const c10::Storage& bytes_of) {
  auto fresh = device_memory().allocate(bytes);
  Opened opened;
  opened.add(fresh);
  if (bytes_of.device_type() == kDevice) opened.add(bytes_of.data_ptr());
  if (const auto kept = std::min(bytes, bytes_of.nbytes()))
    std::memcpy(fresh.get(), bytes_of.data(), kept);
  storage.unsafeGetStorageImpl()->set_data_ptr(std::move(fresh));
  storage.set_nbytes(bytes);
}

}  // namespace emulated
