// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recordings: command lists as graphs of the vendor, whose nodes are patched when a dynamic binding has changed (HD-G-01). For a vendor without graphs, a
// recording is the checked and packed list, which each replay issues.
#ifndef HEDDLE_SDK_STREAM_GRAPH_H_
#define HEDDLE_SDK_STREAM_GRAPH_H_

#include "heddle/sdk/stream/queue.h"

namespace heddle::sdk::stream {

heddle_status_t* record(heddle_queue_t* queue, const heddle_command_t* commands, uint32_t count, const uint8_t* dynamic,
                        heddle_recording_t** out) noexcept;
heddle_status_t* replay(heddle_recording_t* recording, const heddle_binding_t* bindings, uint32_t count,
                        const heddle_sync_t* sync) noexcept;
void recording_free(heddle_recording_t* recording) noexcept;

// For the queue: issues a recording that is patched, and lists its kernels for error texts.
Result issue(Recording* recording, Stream stream) noexcept;
void list_launches(const Recording* recording, std::vector<const Op::Launch*>* out);

}  // namespace heddle::sdk::stream
#endif  // HEDDLE_SDK_STREAM_GRAPH_H_
