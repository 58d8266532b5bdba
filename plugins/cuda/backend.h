// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CUDA's calls for the stream driver, on one device.
#ifndef HEDDLE_CUDA_BACKEND_H_
#define HEDDLE_CUDA_BACKEND_H_

#include "cuda/errors.h"
#include "heddle/sdk/stream/backend.h"
#include "heddle/sdk/stream/code.h"

namespace heddle::cuda {

namespace stream = sdk::stream;
using stream::Address;
using stream::Copy2d;
using stream::Fill;
using stream::Launch;
using stream::Meaning;
using stream::Result;

struct Facts : stream::Facts {
  CUdevice device = 0;
  int capability = 0;          // 90: compute capability 9.0
  int plain_shared_bytes = 0;  // what a kernel can have without asking for more
  const char* lack = nullptr;  // what the driver needs and the device does not have
};

class Backend : public stream::Backend {
 public:
  Backend(const Api& api, const Facts& known) noexcept;
  ~Backend() override;

  Result start(uint64_t retain_bytes, const char** out_step) override;
  void enter(Scope* out) const noexcept override;
  void leave(const Scope& scope) const noexcept override;
  Result check_context() noexcept override;

  Meaning meaning(Result result) const noexcept override { return meaning_of(static_cast<CUresult>(result)); }
  heddle_status_code_t code_of(Result result) const noexcept override { return cuda::code_of(static_cast<CUresult>(result)); }
  const char* name_of(Result result) const noexcept override;
  const char* text_of(Result result) const noexcept override;

  Result create_stream(uint32_t priority, stream::Stream* out) noexcept override;
  void destroy_stream(stream::Stream stream) noexcept override;
  Result synchronize_stream(stream::Stream stream) noexcept override;
  Result is_captured(stream::Stream stream, bool* out) noexcept override;
  Result context_of(stream::Stream stream, stream::Context* out) noexcept override;
  Result write_word(stream::Stream stream, const stream::Word& word, uint64_t value) noexcept override;
  Result wait_word(stream::Stream stream, const stream::Word& word, uint64_t value) noexcept override;

  Result launch(const Launch& launch, bool early, stream::Stream stream) noexcept override;
  Result copy(Address to, Address from, uint64_t bytes, stream::Stream stream) noexcept override;
  Result copy_2d(const Copy2d& copy, stream::Stream stream) noexcept override;
  Result copy_peer(Address to, stream::Context to_context, Address from, stream::Context from_context, uint64_t bytes,
                   stream::Stream stream) noexcept override;
  Result fill(const Fill& fill, stream::Stream stream) noexcept override;
  Result fill_pitched(const Fill& fill, uint64_t pitch, stream::Stream stream) noexcept override;

  Result allocate_host(uint64_t bytes, bool mapped, void** out) noexcept override;
  void free_host(void* memory) noexcept override;
  Result register_host(void* memory, uint64_t bytes, bool mapped) noexcept override;
  void unregister_host(void* memory) noexcept override;
  Result address_of(void* memory, Address* out) noexcept override;
  Result owner_of(Address address, stream::Owner* out, int* out_ordinal) noexcept override;
  int own_ordinal() const noexcept override { return facts.device; }

  Result allocate_large(uint64_t bytes, Address* out) noexcept override;
  void free_large(Address block) noexcept override;
  Result allocate_pooled(uint64_t bytes, Address* out) noexcept override;
  void free_pooled(Address block) noexcept override;
  void trim_pool() noexcept override;
  uint64_t pool_bytes() noexcept override;
  void memory_info(uint64_t* out_free, uint64_t* out_total) noexcept override;
  Result enable_peer(stream::Backend& other) noexcept override;

  Result create_event(bool timed, stream::Event* out) noexcept override;
  void destroy_event(stream::Event event) noexcept override;
  Result record_event(stream::Event event, stream::Stream stream) noexcept override;
  Result synchronize_event(stream::Event event) noexcept override;
  Result elapsed(stream::Event from, stream::Event to, float* out_ms) noexcept override;

  Result create_graph(stream::Graph* out) noexcept override;
  void destroy_graph(stream::Graph graph) noexcept override;
  Result add_kernel(stream::Graph graph, const stream::Node* before, size_t count, const Launch& launch,
                    stream::Node* out) noexcept override;
  Result add_copy(stream::Graph graph, const stream::Node* before, size_t count, const Copy2d& copy, stream::Node* out) noexcept override;
  Result add_fill(stream::Graph graph, const stream::Node* before, size_t count, const Fill& fill, stream::Node* out) noexcept override;
  Result add_empty(stream::Graph graph, const stream::Node* before, size_t count, stream::Node* out) noexcept override;
  Result add_early_edge(stream::Graph graph, stream::Node from, stream::Node to) noexcept override;
  Result instantiate(stream::Graph graph, stream::GraphExec* out) noexcept override;
  void destroy_graph_exec(stream::GraphExec exec) noexcept override;
  Result patch_kernel(stream::GraphExec exec, stream::Node node, const Launch& launch) noexcept override;
  Result patch_copy(stream::GraphExec exec, stream::Node node, const Copy2d& copy) noexcept override;
  Result patch_fill(stream::GraphExec exec, stream::Node node, const Fill& fill) noexcept override;
  Result disable_node(stream::GraphExec exec, stream::Node node) noexcept override;
  Result launch_graph(stream::GraphExec exec, stream::Stream stream) noexcept override;

  // code.cpp
  uint32_t rank(std::string_view format, std::string_view target) const noexcept override;
  heddle_status_t* load_module(stream::Loading& loading, stream::Module* out) override;
  void unload_module(stream::Module module) noexcept override;
  heddle_status_t* load_entry(stream::Loading& loading, stream::Module module, const heddle_entry_params_t& params,
                              stream::Entry* entry) override;
  heddle_status_t* load_argument(stream::Loading& loading, const heddle_entry_params_t& params, uint32_t index,
                                 stream::Argument* out) override;

  const Api& cuda;
  const Facts& facts;

 private:
  CUmemoryPool pool_ = nullptr;
  CUstream allocation_stream_ = nullptr;  // used for allocations and frees only
};

// The vendor's handles.
inline CUstream cu(stream::Stream stream) noexcept {
  return reinterpret_cast<CUstream>(stream);
}
inline CUevent cu(stream::Event event) noexcept {
  return reinterpret_cast<CUevent>(event);
}
inline CUcontext cu(stream::Context context) noexcept {
  return reinterpret_cast<CUcontext>(context);
}
inline CUmodule cu(stream::Module module) noexcept {
  return reinterpret_cast<CUmodule>(module);
}
inline CUfunction cu(stream::Function function) noexcept {
  return reinterpret_cast<CUfunction>(function);
}
inline CUgraph cu(stream::Graph graph) noexcept {
  return reinterpret_cast<CUgraph>(graph);
}
inline CUgraphExec cu(stream::GraphExec exec) noexcept {
  return reinterpret_cast<CUgraphExec>(exec);
}
inline CUgraphNode cu(stream::Node node) noexcept {
  return reinterpret_cast<CUgraphNode>(node);
}

}  // namespace heddle::cuda
#endif  // HEDDLE_CUDA_BACKEND_H_
