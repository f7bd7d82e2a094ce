// Every operator of torch on the emulated devices: its own CPU kernel on the device's bytes.
//
// A tensor of the device is handed to the kernel as a CPU tensor over the same memory, opened while
// the kernel runs. So operators that write into views, overlap or share a storage mean what
// they mean on the CPU; nothing is copied there and back.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "memory.h"

namespace emulated {

// The CPU's view of the arguments of one call, and the way back for what it returns.
class Hosted {
 public:
  // A CPU tensor over the same bytes; a tensor of the CPU stays what it is.
  at::Tensor in(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != kDevice) return tensor;
    TORCH_CHECK(
        !device || *device == tensor.device(),
        "Expected all tensors to be on the same device, but found at least two devices, ", *device,
        " and ", tensor.device(), "!");
    device = tensor.device();
    for (const auto& [theirs, ours] : tensors_)
      if (theirs.is_same(tensor)) return ours;
    auto ours = view(storage_of(tensor), tensor, c10::DispatchKey::CPU);
    tensors_.emplace_back(tensor, ours);
    return ours;
  }

  // What the kernel returned: an argument itself, a view of one, or a new tensor on the device.
  at::Tensor out(const at::Tensor& result) {
    if (!result.defined()) return result;
    for (const auto& [theirs, ours] : tensors_)
      if (ours.is_same(result)) return theirs;
    for (const auto& [theirs, ours] : storages_)
      if (ours.is_alias_of(result.storage()))
        return view(theirs, result, c10::DispatchKey::PrivateUse1);
    auto moved = at::empty_strided(
        result.sizes(), result.strides(), result.options().device(*device));
    opened_.add(moved.storage().data_ptr());
    const auto to = in(moved);
    to.copy_(result);
    return moved;
  }

  // Arguments that the kernel resized (`out=`, `resize_`): the device's tensors follow.
  void follow_sizes() {
    for (const auto& [theirs, ours] : storages_)
      if (ours.nbytes() > theirs.nbytes()) reallocate(theirs, ours.nbytes(), ours);
    for (const auto& [theirs, ours] : tensors_)
      if (theirs.sizes() != ours.sizes() || theirs.strides() != ours.strides())
        theirs.unsafeGetTensorImpl()->set_sizes_and_strides(ours.sizes(), ours.strides());
  }

  std::optional<c10::Device> device;

 private:
  static at::Tensor view(c10::Storage storage, const at::Tensor& like, c10::DispatchKey key) {
    auto tensor = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(key), like.dtype());
    auto* impl = tensor.unsafeGetTensorImpl();
    impl->set_storage_offset(like.storage_offset());
    impl->set_sizes_and_strides(like.sizes(), like.strides());
    if (like.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
    return tensor;
  }

  c10::Storage storage_of(const at::Tensor& tensor) {
    const auto& storage = tensor.storage();
    for (const auto& [theirs, ours] : storages_)
      if (theirs.is_alias_of(storage)) return ours;
    opened_.add(storage.data_ptr());
    auto* data = storage.data_ptr().get();
    c10::Storage ours(
        c10::Storage::use_byte_size_t(), storage.nbytes(),
        c10::DataPtr(data, c10::Device(c10::DeviceType::CPU)), c10::GetAllocator(at::kCPU), true);
    storages_.emplace_back(storage, ours);
    return ours;
  }

  Opened opened_;
  std::vector<std::pair<at::Tensor, at::Tensor>> tensors_;
  std::vector<std::pair<c10::Storage, c10::Storage>> storages_;
};

// A tensor of the CPU beside tensors of the device: a scalar where elements are combined, indices,
// and the two sides of a copy. Anything else is refused, as on hardware.
inline void refuse_mixed(const c10::OperatorHandle& op, const Hosted& hosted,
                         const c10::Argument& argument, const at::Tensor& tensor) {
  if (!hosted.device || !tensor.defined() || tensor.device() == *hosted.device) return;
  const auto& name = op.schema().name();
  const bool puts = name == "aten::_index_put_impl_" || name == "aten::index_put_";
  if ((puts || name == "aten::index") && argument.name() == "indices") return;
  // torch tags floor_divide no more; a wrapped number is a number of Python's.
  const bool scalars = op.hasTag(at::Tag::pointwise) || puts || name == "aten::floor_divide" ||
      tensor.unsafeGetTensorImpl()->is_wrapped_number();
  if (tensor.dim() == 0 && scalars) return;
  TORCH_CHECK(
      false, "Expected all tensors to be on the same device, but found at least two devices, ",
      *hosted.device, " and ", tensor.device(), "! (argument ", argument.name(), " of ", name, ")");
}

template <class Visit>
void each_tensor(const c10::IValue& value, Visit visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& one : value.toTensorVector()) visit(one);
  } else if (value.isOptionalTensorList()) {
    for (const std::optional<at::Tensor> one : value.toOptionalTensorList())
      if (one) visit(*one);
  }
}

template <class Map>
c10::IValue mapped(const c10::IValue& value, Map map) {
  if (value.isTensor()) return map(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& one : value.toTensorVector()) list.push_back(map(one));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor> one : value.toOptionalTensorList())
      list.push_back(one ? std::optional<at::Tensor>(map(*one)) : std::nullopt);
    return list;
  }
  return value;
}

inline void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Hosted hosted;
  const auto& schema = op.schema();
  const auto first = stack->end() - static_cast<int64_t>(schema.arguments().size());
  const std::vector<c10::IValue> given(first, stack->end());
  for (size_t i = 0; i < given.size(); ++i) {
    auto& value = *(first + static_cast<int64_t>(i));
    if (value.isDevice() && value.toDevice().type() == kDevice) {
      if (!hosted.device) hosted.device = value.toDevice();
      value = c10::Device(c10::DeviceType::CPU);
    } else {
      value = mapped(value, [&](const at::Tensor& tensor) { return hosted.in(tensor); });
    }
  }
  for (size_t i = 0; i < given.size(); ++i)
    each_tensor(given[i], [&](const at::Tensor& tensor) {
      refuse_mixed(op, hosted, schema.arguments()[i], tensor);
    });
  op.callBoxed(stack);
  hosted.follow_sizes();
  for (auto at = stack->end() - static_cast<int64_t>(schema.returns().size()); at != stack->end(); ++at)
    *at = mapped(*at, [&](const at::Tensor& tensor) { return hosted.out(tensor); });
}

}  // namespace emulated
