// An emulated device for torch's PrivateUse1 key: real tensors with addresses of their own, on a
// machine with nothing but a CPU. It emulates what operators mean, not hardware: no timing, and
// streams and events are always done.
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/set_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstdlib>
#include <set>

#include "fallback.h"

namespace emulated {

using c10::Device;
using c10::DeviceIndex;
using c10::Stream;

DeviceIndex checked(DeviceIndex index) {
  TORCH_CHECK(
      index >= 0 && index < kDevices, "emulated device: there is no index ", int(index), ", only ",
      int(kDevices), " devices");
  return index;
}

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice; }
  Device exchangeDevice(Device to) const override {
    const auto from = getDevice();
    setDevice(to);
    return from;
  }
  Device getDevice() const override { return {kDevice, current_device}; }
  void setDevice(Device to) const override { current_device = checked(to.index()); }
  void uncheckedSetDevice(Device to) const noexcept override { current_device = to.index(); }
  Stream getStream(Device device) const override { return Stream(Stream::DEFAULT, device); }
  Stream getDefaultStream(Device device) const override { return Stream(Stream::DEFAULT, device); }
  Stream getNewStream(Device device, int) const override { return Stream(Stream::DEFAULT, device); }
  Stream getStreamFromGlobalPool(Device device, bool) const override { return getStream(device); }
  Stream exchangeStream(Stream stream) const override { return getStream(stream.device()); }
  DeviceIndex deviceCount() const noexcept override { return kDevices; }
  // A kernel has ended before its call returns: there is never anything to wait for.
  void record(void**, const Stream&, const DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const Stream&) const override { return true; }
  void synchronizeStream(const Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const DeviceIndex) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// Page-locked host memory: the host's own, and known by its address.
struct PinnedMemory final : c10::Allocator {
  static std::set<const void*>& pinned() {
    static auto* addresses = new std::set<const void*>;
    return *addresses;
  }
  static void release(void* data) {
    pinned().erase(data);
    std::free(data);
  }
  c10::DataPtr allocate(size_t bytes) override {
    void* data = std::aligned_alloc(4096, (bytes / 4096 + 1) * 4096);
    pinned().insert(data);
    return {data, data, &release, Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return kDevices; }
  DeviceIndex getCurrentDevice() const override { return current_device; }
  void setCurrentDevice(DeviceIndex index) const override { current_device = checked(index); }
  DeviceIndex exchangeDevice(DeviceIndex index) const override {
    return std::exchange(current_device, checked(index));
  }
  DeviceIndex maybeExchangeDevice(DeviceIndex index) const override {
    return index < 0 ? current_device : exchangeDevice(index);
  }
  bool isPinnedPtr(const void* data) const override {
    return PinnedMemory::pinned().count(data) > 0;
  }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedMemory memory;
    return &memory;
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    reallocate(storage, bytes, storage);
  }
};

at::Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<Device> device, std::optional<bool> pin_memory,
    std::optional<at::MemoryFormat> format) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  const c10::DeviceGuard guard(device.value_or(Device(kDevice)));
  return at::detail::empty_generic(
      size, &device_memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      dtype.value_or(at::get_default_dtype_as_scalartype()), format);
}

at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>, std::optional<Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
  const c10::DeviceGuard guard(device.value_or(Device(kDevice)));
  return at::detail::empty_strided_generic(
      size, stride, &device_memory(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      dtype.value_or(at::get_default_dtype_as_scalartype()));
}

// The one operator that tensors of two devices are for.
at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  Hosted one, another;
  auto& other = from.device() == to.device() ? one : another;
  other.in(to).copy_(one.in(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  to.resize_(from.sizes());
  return copy_from(from, to, false);
}

at::Tensor& set_storage(
    at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
    at::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  return at::native::set_(self, std::move(source));
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  return at::native::set_tensor_(self, source);
}

void record_stream(at::Tensor&, Stream) {}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_host>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("set_.source_Storage_storage_offset", &set_storage);
  library.impl("set_.source_Storage", &set_whole_storage);
  library.impl("set_.source_Tensor", &set_tensor);
  library.impl("record_stream", &record_stream);
}

const bool registered = [] {
  c10::SetAllocator(kDevice, &device_memory());
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return true;
}();

}  // namespace emulated
