// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The C++ layer over heddle/runtime.h for applications: RAII handles, exceptions, spans. Header only, C++20; link libheddle (pkg-config: heddle).
// Depends on the C headers and the standard library alone. runtime.h defines what each function does; this header only says what it adds.
//
// A minimal program:
//
//   std::vector<float> pixels(64);
//   heddle::Runtime runtime = heddle::Runtime::create();
//   heddle::Module module = runtime.open("digits.heddle");
//   heddle::Instance instance = module.create_instance();
//   heddle::Function function = instance.function();
//   heddle::Tensor image = function.tensor(0, {1, 1, 8, 8}, pixels), result;
//   function.call({&image}, {&result});
//   std::vector<float> scores = result.read<float>();
//
// Ownership  Runtime, Device, Module, Instance, State, Tensor, Call and Text own one handle of the C interface. They are move-only, as large as a
//            pointer, and empty if default-constructed or moved from. An empty object may only be destroyed, moved, assigned to and tested; an empty
//            Tensor may also be the place for a result of a call. Objects may be destroyed in any order: each keeps alive what it needs. The
//            destructors of Instance and Call may wait for calls; see there. get() is the C handle, for everything that is not here; release() gives
//            up ownership of it, and the explicit constructor takes it. A Function owns nothing: it is valid until its Instance object is destroyed.
// Errors     A function that fails throws heddle::Error, which has the code and the text of the status. It throws std::bad_alloc if the host has no
//            memory for an object of this header. After both, objects keep what they had, except for what runtime.h says of the state of an instance
//            and the result tensors of a failed call. Destructors never throw.
// Threads    Const member functions may be called by several threads at once; calls of one Function may run concurrently. While a thread
//            writes, moves from, assigns to or destroys an object, no other thread may use it.
// Units      Sizes are in bytes where the name says so; otherwise they count elements. Timeouts and deadlines are std::chrono types.
// Cost       That of the C function, unless a comment says that the function allocates or copies. Creating a Runtime or an Instance allocates.
#ifndef HEDDLE_HEDDLE_HPP_
#define HEDDLE_HEDDLE_HPP_

#if !defined(__cplusplus) || __cplusplus < 202002L
#error "heddle/heddle.hpp needs C++20; compile with -std=c++20 or newer, or use heddle/runtime.h"
#endif

#include <array>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/runtime.h"

namespace heddle {

// ------------------------------------------------------------------------------------------------------------- errors

// A failure. what() is the status's text: "<who>: <operation> failed: <cause>; <next step>". Copies share the status.
class Error : public std::runtime_error {
 public:
  // Takes ownership of a status, which is not NULL.
  explicit Error(heddle_status_t* owned) : Error(std::shared_ptr<heddle_status_t>(owned, heddle_status_free)) {}
  // HEDDLE_STATUS_*, and its name: "NOT_FOUND".
  heddle_status_code_t code() const noexcept { return heddle_status_code(status()); }
  std::string_view code_name() const noexcept { return view(heddle_status_code_name(code())); }
  // For payloads and native codes (status.h); valid for the lifetime of this object and of its copies.
  const heddle_status_t* status() const noexcept { return status_.get(); }

 private:
  explicit Error(std::shared_ptr<heddle_status_t> status)
      : std::runtime_error(std::string(view(heddle_status_message(status.get())))), status_(std::move(status)) {}
  static std::string_view view(heddle_string_t text) noexcept { return {text.data, text.size}; }

  std::shared_ptr<heddle_status_t> status_;
};

// Throws Error if a C function failed; takes ownership of its status. NULL is success.
inline void check(heddle_status_t* status) {
  if (status) [[unlikely]]
    throw Error(status);
}

// Strings of the C interface. Neither conversion copies; the result is valid as long as the source.
inline std::string_view view(heddle_string_t text) noexcept {
  return {text.data, text.size};
}
inline heddle_string_t c_string(std::string_view text) noexcept {
  return {text.data(), text.size()};
}

// ------------------------------------------------------------------------------------------------------------- types

// The element type of a C++ type. For a type of your own, such as a half: template <> inline constexpr heddle_element_type_t
// heddle::element_type_of<half> = HEDDLE_TYPE_F16.
template <class T>
inline constexpr heddle_element_type_t element_type_of = [] {
  if constexpr (std::is_same_v<T, bool>) return HEDDLE_TYPE_BOOL;
  if constexpr (std::is_same_v<T, float>) return HEDDLE_TYPE_F32;
  if constexpr (std::is_same_v<T, double>) return HEDDLE_TYPE_F64;
  if constexpr (std::is_integral_v<T>) {
    constexpr bool is_signed = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) return is_signed ? HEDDLE_TYPE_I8 : HEDDLE_TYPE_U8;
    if constexpr (sizeof(T) == 2) return is_signed ? HEDDLE_TYPE_I16 : HEDDLE_TYPE_U16;
    if constexpr (sizeof(T) == 4) return is_signed ? HEDDLE_TYPE_I32 : HEDDLE_TYPE_U32;
    if constexpr (sizeof(T) == 8) return is_signed ? HEDDLE_TYPE_I64 : HEDDLE_TYPE_U64;
  }
  return HEDDLE_TYPE_UNDEFINED;
}();

// A vector, an array, a span or any other contiguous range whose values have an element type.
template <class R>
concept Elements = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
                   element_type_of<std::remove_cv_t<std::ranges::range_value_t<R>>> != HEDDLE_TYPE_UNDEFINED;

// "f32"; "unknown" for a type that is not in types.h.
constexpr std::string_view element_type_name(heddle_element_type_t type) noexcept {
  constexpr std::pair<heddle_element_type_t, std::string_view> kNames[] = {{HEDDLE_TYPE_BOOL, "bool"},
                                                                           {HEDDLE_TYPE_I4, "i4"},
                                                                           {HEDDLE_TYPE_U4, "u4"},
                                                                           {HEDDLE_TYPE_I8, "i8"},
                                                                           {HEDDLE_TYPE_U8, "u8"},
                                                                           {HEDDLE_TYPE_I16, "i16"},
                                                                           {HEDDLE_TYPE_U16, "u16"},
                                                                           {HEDDLE_TYPE_I32, "i32"},
                                                                           {HEDDLE_TYPE_U32, "u32"},
                                                                           {HEDDLE_TYPE_I64, "i64"},
                                                                           {HEDDLE_TYPE_U64, "u64"},
                                                                           {HEDDLE_TYPE_F16, "f16"},
                                                                           {HEDDLE_TYPE_BF16, "bf16"},
                                                                           {HEDDLE_TYPE_F32, "f32"},
                                                                           {HEDDLE_TYPE_F64, "f64"},
                                                                           {HEDDLE_TYPE_F8E4M3, "f8e4m3"},
                                                                           {HEDDLE_TYPE_F8E5M2, "f8e5m2"},
                                                                           {HEDDLE_TYPE_F8E4M3FNUZ, "f8e4m3fnuz"},
                                                                           {HEDDLE_TYPE_F8E5M2FNUZ, "f8e5m2fnuz"},
                                                                           {HEDDLE_TYPE_F8E8M0, "f8e8m0"},
                                                                           {HEDDLE_TYPE_F4E2M1, "f4e2m1"},
                                                                           {HEDDLE_TYPE_I2, "i2"},
                                                                           {HEDDLE_TYPE_U2, "u2"}};
  for (const auto& [known, name] : kNames) {
    if (known == type) return name;
  }
  return "unknown";
}

class Device;

// The type of an argument or a result; its strings are borrowed from the instance.
class TensorType {
 public:
  std::string_view name() const noexcept { return view(c_.name); }
  heddle_element_type_t element_type() const noexcept { return c_.element_type; }
  // Extents; negative for one that is not known before the call.
  std::span<const int64_t> dims() const noexcept { return {c_.dims, c_.rank}; }
  // The symbol of dimension i, such as "batch"; empty if it has none. i is less than the rank. Equal symbols have equal extents in one call.
  std::string_view symbol(size_t i) const noexcept { return view(c_.symbols[i]); }
  // "f32[batch,1,8,8]", with "?" for an unknown extent without a symbol. Allocates.
  std::string text() const {
    std::string out = std::string(element_type_name(c_.element_type)) + '[';
    for (size_t i = 0; i < c_.rank; ++i) {
      if (i > 0) out += ',';
      out += c_.dims[i] >= 0 ? std::to_string(c_.dims[i]) : c_.symbols[i].size != 0 ? std::string(symbol(i)) : "?";
    }
    return out + ']';
  }
  // Where the argument is expected, or the result is.
  Device device() const noexcept;
  const heddle_tensor_type_t& get() const noexcept { return c_; }

 private:
  friend class Function;
  heddle_tensor_type_t c_{};
};

// ------------------------------------------------------------------------------------------------------------- handles

// Owns one C handle.
template <class T, void (*kRelease)(T*)>
class Handle {
 public:
  Handle() noexcept = default;
  explicit Handle(T* owned) noexcept : handle_(owned) {}
  T* get() const noexcept { return handle_.get(); }
  explicit operator bool() const noexcept { return handle_ != nullptr; }
  [[nodiscard]] T* release() noexcept { return handle_.release(); }

 private:
  struct Release {
    void operator()(T* handle) const noexcept { kRelease(handle); }
  };
  std::unique_ptr<T, Release> handle_;
};

// A string that the runtime returned.
class Text : public Handle<heddle_text_t, heddle_text_free> {
 public:
  using Handle::Handle;
  std::string_view view() const noexcept { return heddle::view(heddle_text_view(get())); }
};

// Element type, dimensions and a range of device memory. The call that fills a result may still be running; reading waits for it.
class Tensor : public Handle<heddle_tensor_t, heddle_tensor_release> {
 public:
  using Handle::Handle;
  heddle_element_type_t element_type() const noexcept { return heddle_tensor_element_type(get()); }
  // Borrowed from the tensor. If a dimension in the type of a result is negative and has no symbol, its extent is known only when the call is over:
  // wait for the call before dims, size_bytes, text and read<T>(), which do not wait for the shape.
  std::span<const int64_t> dims() const noexcept { return {heddle_tensor_dims(get()), heddle_tensor_rank(get())}; }
  uint64_t size_bytes() const noexcept { return heddle_tensor_size(get()); }
  // "f32[1,10]". Allocates.
  std::string text() const {
    std::string out = std::string(element_type_name(element_type())) + '[';
    for (const int64_t dim : dims()) out += (out.back() == '[' ? "" : ",") + std::to_string(dim);
    return out + ']';
  }

  // Waits for the tensor's producer and copies the contents out. INVALID_ARGUMENT for a range of another element type or size; a bool tensor
  // may be read and written as uint8_t.
  template <Elements R>
  void read(R&& values) const {
    expect<std::ranges::range_value_t<R>>("reading");
    read_bytes(std::as_writable_bytes(std::span(values)));
  }
  // The same into a new vector, whose size is that of dims.
  template <class T>
  std::vector<T> read() const {
    static_assert(!std::is_same_v<T, bool>, "std::vector<bool> has no array of bool; read uint8_t");
    expect<T>("reading");
    std::vector<T> values(size_bytes() / sizeof(T));
    read_bytes(std::as_writable_bytes(std::span(values)));
    return values;
  }
  // For any element type.
  void read_bytes(std::span<std::byte> bytes) const { check(heddle_tensor_read(get(), bytes.data(), bytes.size())); }

  // Waits for the call that fills the tensor, if there is one, and then replaces the contents. No other call in flight may read or write the tensor,
  // and no other thread may use it.
  template <Elements R>
  void write(const R& values) {
    expect<std::ranges::range_value_t<R>>("writing");
    write_bytes(std::as_bytes(std::span(values)));
  }
  void write_bytes(std::span<const std::byte> bytes) { check(heddle_tensor_write(get(), bytes.data(), bytes.size())); }
  // Replaces the contents as write does, without waiting for the copy; calls that use the tensor run after it. The values are kept, and must not be
  // changed, until the copy is over. Allocates.
  template <Elements R>
  void upload(std::shared_ptr<const R> values) {
    expect<std::ranges::range_value_t<R>>("uploading to");
    const std::span<const std::byte> bytes = std::as_bytes(std::span(*values));
    auto* kept = new std::shared_ptr<const R>(std::move(values));
    upload_bytes(bytes, [](void* context) { delete static_cast<std::shared_ptr<const R>*>(context); }, kept);
  }
  // The bytes must stay valid until copied(context), which is called exactly once, perhaps on another thread, also if this throws
  // (release of heddle_tensor_upload).
  void upload_bytes(std::span<const std::byte> bytes, void (*copied)(void* context), void* context) {
    check(heddle_tensor_upload(get(), bytes.data(), bytes.size(), copied, context));
  }
  // Waits until the contents are complete; throws the failure of the call or the upload that should have filled them.
  void wait() const { check(heddle_tensor_wait(get(), HEDDLE_TIMEOUT_INFINITE)); }

  // Address on the device. UNIMPLEMENTED if the driver does not expose addresses.
  uint64_t address() const {
    uint64_t out = 0;
    check(heddle_tensor_address(get(), &out));
    return out;
  }
  // Where the tensor is. This object must not be empty.
  Device device() const noexcept;
  // Another owner of the same tensor. This object must not be empty.
  [[nodiscard]] Tensor share() const noexcept { return Tensor(heddle_tensor_retain(get())); }

 private:
  template <class T>
  void expect(const char* operation) const {
    constexpr heddle_element_type_t wanted = element_type_of<std::remove_cv_t<T>>;
    static_assert(wanted != HEDDLE_TYPE_UNDEFINED, "specialize heddle::element_type_of for this type, or use read_bytes and write_bytes");
    const heddle_element_type_t is = element_type();
    if (is == wanted || (is == HEDDLE_TYPE_BOOL && wanted == HEDDLE_TYPE_U8)) [[likely]]
      return;
    const std::string message = std::string("heddle: ") + operation + " a tensor of " + text() + " as " +
                                std::string(element_type_name(wanted)) + " failed: its elements are " + std::string(element_type_name(is)) +
                                "; use this type, or bytes";
    throw Error(heddle_status_create(HEDDLE_STATUS_INVALID_ARGUMENT, c_string(message)));
  }
};

// A device that holds tensors and runs calls, from Runtime::device, Tensor::device or TensorType::device (of an argument or a result). Its tensors
// are for arguments and results of all functions on the device.
class Device : public Handle<heddle_runtime_device_t, heddle_runtime_device_release> {
 public:
  using Handle::Handle;
  // Its strings are borrowed from this object: name, driver, family.
  heddle_runtime_device_properties_t properties() const {
    heddle_runtime_device_properties_t out{};
    out.struct_size = sizeof(out);
    check(heddle_runtime_device_describe(get(), &out));
    return out;
  }
  std::string_view name() const { return view(properties().name); }

  // A new tensor with a copy of the values. INVALID_ARGUMENT if their number is not the product of dims.
  template <Elements R>
  Tensor tensor(std::span<const int64_t> dims, const R& values) const {
    std::span<const std::byte> bytes = std::as_bytes(std::span(values));
    static constexpr std::byte kNone{};
    if (!bytes.data()) bytes = {&kNone, size_t{0}};  // no values are not the same as none given
    return tensor_from_bytes(element_type_of<std::remove_cv_t<std::ranges::range_value_t<R>>>, dims, bytes);
  }
  template <Elements R>
  Tensor tensor(std::initializer_list<int64_t> dims, const R& values) const {
    return tensor(std::span(dims.begin(), dims.size()), values);
  }
  // For any element type. Without bytes, the contents are undefined until they are written, uploaded, or filled by a call.
  Tensor tensor_from_bytes(heddle_element_type_t type, std::span<const int64_t> dims, std::span<const std::byte> bytes = {}) const {
    heddle_tensor_t* out = nullptr;
    check(heddle_tensor_create(get(), type, dims.data(), static_cast<uint32_t>(dims.size()), bytes.data(), bytes.size(), &out));
    return Tensor(out);
  }
  // Over memory of the application, without a copy; as Function::tensor_over.
  Tensor tensor_over(heddle_element_type_t type, std::span<const int64_t> dims, heddle_device_memory_t memory) const {
    memory.struct_size = sizeof(memory);
    heddle_tensor_t* out = nullptr;
    check(heddle_tensor_import(get(), type, dims.data(), static_cast<uint32_t>(dims.size()), &memory, &out));
    return Tensor(out);
  }
  // Another owner of the same device.
  [[nodiscard]] Device share() const noexcept { return Device(heddle_runtime_device_retain(get())); }
};

inline Device TensorType::device() const noexcept {
  return Device(heddle_runtime_device_retain(c_.device));
}
inline Device Tensor::device() const noexcept {
  return Device(heddle_runtime_device_retain(heddle_tensor_device(get())));
}

// A handle of a call in flight. When the handle is destroyed, the call goes on, and its results are filled. The destructor waits in one case only: if
// the Instance object is gone and this is its last handle of a call, it destroys the instance, which waits for all calls still in flight.
class Call : public Handle<heddle_call_t, heddle_call_release> {
 public:
  using Handle::Handle;
  // Waits without limit; throws the call's failure.
  void wait() const { check(heddle_call_wait(get(), HEDDLE_TIMEOUT_INFINITE)); }
  // Returns false on a timeout; the call then goes on. A timeout of 0 polls. Throws the call's failure, such as a missed deadline.
  bool wait_for(std::chrono::nanoseconds timeout) const {
    heddle_status_t* status = heddle_call_wait(get(), timeout.count() > 0 ? static_cast<uint64_t>(timeout.count()) : 0);
    if (heddle_status_code(status) == HEDDLE_STATUS_DEADLINE_EXCEEDED && heddle_status_payload(status, c_string("deadline")).size == 0) {
      heddle_status_free(status);
      return false;
    }
    check(status);
    return true;
  }
  // Drops the work that is not yet enqueued; if there was any, the call fails with CANCELLED.
  void cancel() const noexcept { heddle_call_cancel(get()); }
};

// What the functions of an instance keep between calls (heddle_state_create); from Instance::create_state.
class State : public Handle<heddle_state_t, heddle_state_release> {
 public:
  using Handle::Handle;
};

struct CallOptions {
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // A stream of the vendor's API (ext/native.h): the call starts after the work that is already on it, and later work on it after the call.
  std::optional<uint64_t> native_stream;
  // The state that the call uses; NULL: the instance's own.
  const State* state = nullptr;
  // Indices of arguments that the caller gives up ("Memory of arguments" in runtime.h). Borrowed until start returns.
  std::span<const uint32_t> donated = {};
};

// ------------------------------------------------------------------------------------------------------------- function

// An entry point of a module. Copies are cheap. Valid until the Instance object is destroyed, even if a Call keeps the instance alive longer.
class Function {
 public:
  explicit Function(heddle_function_t* borrowed) noexcept : function_(borrowed) {}
  heddle_function_t* get() const noexcept { return function_; }
  uint32_t argument_count() const noexcept { return heddle_function_argument_count(function_); }
  uint32_t result_count() const noexcept { return heddle_function_result_count(function_); }
  // OUT_OF_RANGE for an index that does not exist.
  TensorType argument(uint32_t index) const { return type(heddle_function_argument, index); }
  TensorType result(uint32_t index) const { return type(heddle_function_result, index); }

  // A new tensor on the device of that argument, with a copy of the values. INVALID_ARGUMENT if their number is not the product of dims.
  template <Elements R>
  Tensor tensor(uint32_t argument, std::span<const int64_t> dims, const R& values) const {
    return tensor_from_bytes(argument, element_type_of<std::remove_cv_t<std::ranges::range_value_t<R>>>, dims,
                             std::as_bytes(std::span(values)));
  }
  template <Elements R>
  Tensor tensor(uint32_t argument, std::initializer_list<int64_t> dims, const R& values) const {
    return tensor(argument, std::span(dims.begin(), dims.size()), values);
  }
  // For any element type.
  Tensor tensor_from_bytes(uint32_t argument, heddle_element_type_t type, std::span<const int64_t> dims,
                           std::span<const std::byte> bytes) const {
    heddle_tensor_t* out = nullptr;
    check(heddle_tensor_from_host(function_, argument, type, dims.data(), static_cast<uint32_t>(dims.size()), bytes.data(), bytes.size(),
                                  &out));
    return Tensor(out);
  }
  // A tensor over device memory of the application, without a copy, for the argument `index` or, with HEDDLE_DEVICE_MEMORY_RESULT in
  // memory.flags, the result `index`. memory.struct_size is set here. memory.release is called exactly once: when the tensor is no longer used, or
  // before this function throws.
  Tensor tensor_over(uint32_t index, heddle_element_type_t type, std::span<const int64_t> dims, heddle_device_memory_t memory) const {
    memory.struct_size = sizeof(memory);
    heddle_tensor_t* out = nullptr;
    check(heddle_tensor_from_device(function_, index, type, dims.data(), static_cast<uint32_t>(dims.size()), &memory, &out));
    return Tensor(out);
  }

  // Calls the function and waits. An empty result receives a new tensor. A result that is not empty is overwritten in place, so that a loop with the
  // same results allocates no tensor; its type and shape must match the function's result. Empty arguments and wrong shapes fail with
  // INVALID_ARGUMENT; pointers must not be null. Allocates for the pointers if there are more than 16 arguments or results.
  void call(std::initializer_list<const Tensor*> arguments, std::initializer_list<Tensor*> results) const {
    invoke(arguments, results, [this](auto... words) { return heddle_call(function_, words...); });
  }
  void call(std::span<const Tensor> arguments, std::span<Tensor> results) const {
    invoke(arguments, results, [this](auto... words) { return heddle_call(function_, words...); });
  }
  // The same, but returns all results in a new vector.
  std::vector<Tensor> call(std::initializer_list<const Tensor*> arguments) const { return call_for_all(arguments); }
  std::vector<Tensor> call(std::span<const Tensor> arguments) const { return call_for_all(arguments); }

  // Starts a call without waiting for it. The result tensors can be used at once, such as for the next call, and are filled when the call is over.
  // The argument tensors may be destroyed before that. Allocates as call does.
  [[nodiscard]] Call start(std::initializer_list<const Tensor*> arguments, std::initializer_list<Tensor*> results,
                           const CallOptions& options = {}) const {
    return start_call(arguments, results, options);
  }
  [[nodiscard]] Call start(std::span<const Tensor> arguments, std::span<Tensor> results, const CallOptions& options = {}) const {
    return start_call(arguments, results, options);
  }

 private:
  // The handles of a call's arguments or results.
  class Pointers {
   public:
    explicit Pointers(size_t count) : more_(count > kInside ? count : 0) {}
    heddle_tensor_t** data() noexcept { return more_.empty() ? inside_.data() : more_.data(); }

   private:
    static constexpr size_t kInside = 16;
    std::array<heddle_tensor_t*, kInside> inside_;
    std::vector<heddle_tensor_t*> more_;
  };

  static const Tensor* pointer(const Tensor* tensor) noexcept { return tensor; }
  static Tensor* pointer(Tensor* tensor) noexcept { return tensor; }
  static const Tensor* pointer(const Tensor& tensor) noexcept { return &tensor; }
  static Tensor* pointer(Tensor& tensor) noexcept { return &tensor; }

  template <class Arguments, class Results, class Invoke>
  static void invoke(const Arguments& arguments, const Results& results, Invoke function) {
    Pointers given(arguments.size()), made(results.size());
    size_t i = 0;
    for (auto& argument : arguments) given.data()[i++] = pointer(argument)->get();
    i = 0;
    for (auto& result : results) made.data()[i++] = pointer(result)->get();
    check(function(given.data(), static_cast<uint32_t>(arguments.size()), made.data(), static_cast<uint32_t>(results.size())));
    i = 0;
    for (auto& result : results) {
      if (heddle_tensor_t* tensor = made.data()[i++]; pointer(result)->get() != tensor) *pointer(result) = Tensor(tensor);
    }
  }

  template <class Arguments>
  std::vector<Tensor> call_for_all(const Arguments& arguments) const {
    std::vector<Tensor> results(result_count());
    invoke(arguments, std::span(results), [this](auto... words) { return heddle_call(function_, words...); });
    return results;
  }

  template <class Arguments, class Results>
  Call start_call(const Arguments& arguments, const Results& results, const CallOptions& options) const {
    heddle_call_params_t params{};
    params.struct_size = sizeof(params);
    if (options.deadline) {  // steady_clock is CLOCK_MONOTONIC; 0 would be no deadline
      const int64_t at = std::chrono::nanoseconds(options.deadline->time_since_epoch()).count();
      params.deadline_ns = at > 0 ? static_cast<uint64_t>(at) : 1;
    }
    if (options.native_stream) {
      params.flags = HEDDLE_CALL_NATIVE_STREAM;
      params.native_stream = *options.native_stream;
    }
    if (options.state) params.state = options.state->get();
    params.donated_arguments = options.donated.data();
    params.donated_argument_count = static_cast<uint32_t>(options.donated.size());
    heddle_call_t* call = nullptr;
    invoke(arguments, results, [&](auto... words) { return heddle_call_start(function_, &params, words..., &call); });
    return Call(call);
  }

  TensorType type(heddle_status_t* (*ask)(const heddle_function_t*, uint32_t, heddle_tensor_type_t*), uint32_t index) const {
    TensorType out;
    out.c_.struct_size = sizeof(out.c_);
    check(ask(function_, index, &out.c_));
    return out;
  }

  heddle_function_t* function_;
};

// ------------------------------------------------------------------------------------------------------------- instance

struct ParameterFile {
  std::string scope;  // the namespace to which the parameters of this file belong (docs/parameters.md); empty: the default one
  std::string path;
};

// Files for heddle_instance_create and heddle_instance_refit. Borrows their texts; allocates.
inline std::vector<heddle_parameter_file_t> c_files(const std::vector<ParameterFile>& files) {
  std::vector<heddle_parameter_file_t> out;
  for (const ParameterFile& one : files) out.push_back({c_string(one.scope), c_string(one.path)});
  return out;
}

// A module bound to devices, with its parameters and its state. Destruction waits for calls in flight, unless a Call object of this instance still
// exists; that object then keeps the instance alive.
class Instance : public Handle<heddle_instance_t, heddle_instance_release> {
 public:
  using Handle::Handle;
  // An empty name means the only function, or "main" if there are several. NOT_FOUND if there is none of that name.
  Function function(std::string_view name = {}) const {
    heddle_function_t* out = nullptr;
    check(heddle_instance_function(get(), c_string(name), &out));
    return Function(out);
  }
  // Waits until the parameters are loaded (HEDDLE_INSTANCE_IN_BACKGROUND), and throws if they could not be.
  void wait() const { check(heddle_instance_wait(get(), HEDDLE_TIMEOUT_INFINITE)); }
  // Makes a separate state, zero at first. Calls that use it (CallOptions::state) share this instance's parameters and code.
  State create_state() const {
    heddle_state_t* out = nullptr;
    check(heddle_state_create(get(), &out));
    return State(out);
  }
  // New values for the parameters that these files have; the others keep theirs. A call uses only old or only new ones (heddle_instance_refit).
  // cancel: NULL, or what another thread sets to 1 to end it with CANCELLED. Allocates.
  void refit(const std::vector<ParameterFile>& parameter_files, const std::vector<ParameterFile>& overlays = {},
             const std::atomic<uint8_t>* cancel = nullptr) const {
    static_assert(sizeof(*cancel) == 1 && std::atomic<uint8_t>::is_always_lock_free);
    const std::vector<heddle_parameter_file_t> files = c_files(parameter_files), over = c_files(overlays);
    heddle_refit_params_t params{};
    params.struct_size = sizeof(params);
    params.parameter_files = files.data();
    params.parameter_file_count = static_cast<uint32_t>(files.size());
    params.overlays = over.data();
    params.overlay_count = static_cast<uint32_t>(over.size());
    params.cancel = reinterpret_cast<const uint8_t*>(cancel);
    check(heddle_instance_refit(get(), &params));
  }
  // JSON: "route", "statistics" or "profile".
  Text report(std::string_view topic) const {
    heddle_text_t* out = nullptr;
    check(heddle_instance_report(get(), c_string(topic), &out));
    return Text(out);
  }
};

struct SlotBinding {
  std::string slot;    // "@a"; empty: the default slot
  std::string device;  // an alias of the configuration, or "cpu", "cpu:1", "heddle.cpu:0"
};

struct InstanceOptions {
  std::vector<SlotBinding> slots;  // others are routed by the configuration
  std::vector<ParameterFile> parameter_files;
  uint32_t flags = 0;                        // bits HEDDLE_INSTANCE_*, such as HEDDLE_INSTANCE_PROFILE
  std::vector<ParameterFile> overlays = {};  // laid over parameter_files: their tensors take the place of those of the same name
};

// One compiled .heddle file, opened and checked.
class Module : public Handle<heddle_module_t, heddle_module_release> {
 public:
  using Handle::Handle;
  // Binds slots, loads code and parameters.
  Instance create_instance(const InstanceOptions& options = {}) const {
    std::vector<heddle_slot_binding_t> slots;
    for (const SlotBinding& one : options.slots) slots.push_back({c_string(one.slot), c_string(one.device)});
    const std::vector<heddle_parameter_file_t> files = c_files(options.parameter_files), overlays = c_files(options.overlays);
    heddle_instance_params_t params{};
    params.struct_size = sizeof(params);
    params.slots = slots.data();
    params.slot_count = static_cast<uint32_t>(slots.size());
    params.parameter_files = files.data();
    params.parameter_file_count = static_cast<uint32_t>(files.size());
    params.flags = options.flags;
    params.overlays = overlays.data();
    params.overlay_count = static_cast<uint32_t>(overlays.size());
    heddle_instance_t* out = nullptr;
    check(heddle_instance_create(get(), &params, &out));
    return Instance(out);
  }
  // JSON: functions, executables, parameters, the compiler's report.
  Text report() const {
    heddle_text_t* out = nullptr;
    check(heddle_module_report(get(), &out));
    return Text(out);
  }
  // JSON: the memory that the module will need (heddle_module_memory). This function sets params.struct_size; the caller sets that of
  // *params.instance, if it is given.
  Text memory(heddle_memory_params_t params = {}) const {
    params.struct_size = sizeof(params);
    heddle_text_t* out = nullptr;
    check(heddle_module_memory(get(), &params, &out));
    return Text(out);
  }
};

struct RuntimeOptions {
  std::string config_path;                // heddle.toml; empty: $HEDDLE_CONFIG, else the user's or the system's file
  std::string config_text;                // TOML that overrides the file and the environment
  std::vector<std::string> plugin_paths;  // directories with manifests, searched first
  uint32_t flags = 0;                     // 0 or HEDDLE_RUNTIME_NO_CONFIG
  // Receives the lines of the log instead of stderr; heddle_runtime_params_t says what it may do. It must not throw.
  void (*log)(void* log_context, uint32_t level, heddle_string_t component, heddle_string_t message) = nullptr;
  void* log_context = nullptr;
};

// Configuration, plugins and devices, which everything that is created from it shares. Usually there is one per process.
class Runtime : public Handle<heddle_runtime_t, heddle_runtime_release> {
 public:
  using Handle::Handle;
  // Reads the configuration and the manifests; loads no plugin yet.
  static Runtime create(const RuntimeOptions& options = {}) {
    std::vector<heddle_string_t> paths;
    for (const std::string& path : options.plugin_paths) paths.push_back(c_string(path));
    heddle_runtime_params_t params{};
    params.struct_size = sizeof(params);
    params.flags = options.flags;
    params.config_path = c_string(options.config_path);
    params.config_text = c_string(options.config_text);
    params.plugin_paths = paths.data();
    params.plugin_path_count = static_cast<uint32_t>(paths.size());
    params.log = options.log;
    params.log_context = options.log_context;
    heddle_runtime_t* out = nullptr;
    check(heddle_runtime_create(&params, &out));
    return Runtime(out);
  }
  // The device of that name: an alias of the configuration, or "cpu", "cpu:1", "heddle.cpu:0". It is shared with the instances on it, and opened when
  // it is first used.
  Device device(std::string_view name) const {
    heddle_runtime_device_t* out = nullptr;
    check(heddle_runtime_device(get(), c_string(name), &out));
    return Device(out);
  }
  // flags: 0 or HEDDLE_MODULE_NO_HASH.
  Module open(std::string_view path, uint32_t flags = 0) const {
    heddle_module_params_t params{};
    params.struct_size = sizeof(params);
    params.flags = flags;
    heddle_module_t* out = nullptr;
    check(heddle_module_open(get(), c_string(path), &params, &out));
    return Module(out);
  }
  // JSON: "devices", "plugins", "config", "schema", "validation" or "trace".
  Text report(std::string_view topic) const {
    heddle_text_t* out = nullptr;
    check(heddle_runtime_report(get(), c_string(topic), &out));
    return Text(out);
  }
};

}  // namespace heddle

#endif  // HEDDLE_HEDDLE_HPP_
