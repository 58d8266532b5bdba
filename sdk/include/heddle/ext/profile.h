/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* heddle.profile/1, an optional interface of drivers: when each command of a submission ran on the device. Implemented by drivers, called
 * by libheddle for instances made with HEDDLE_INSTANCE_PROFILE (runtime.h), on devices with HEDDLE_DEVICE_TIMESTAMPS. */
#ifndef HEDDLE_EXT_PROFILE_H_
#define HEDDLE_EXT_PROFILE_H_

#include "heddle/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define HEDDLE_PROFILE_INTERFACE "heddle.profile/1"

/* Nanoseconds since the first command of the submission began. Both 0: the command did not run, as a barrier does not. Frozen. */
typedef struct heddle_command_time {
  uint64_t begin_ns;
  uint64_t end_ns;
} heddle_command_time_t;

typedef struct heddle_profile_interface {
  uint32_t struct_size;
  uint32_t reserved;
  /* Like submit of heddle.dispatch/1, with command_count times written to out_times before the signals are reached or fail. out_times is
   * zero until then, and lives until then. So that they can be measured separately, the commands run one after the other, with the cost of
   * the measurement between them. Other submissions pay nothing for it. [any] [no-block] */
  heddle_status_t* (*submit)(heddle_queue_t* queue, const heddle_submission_t* submission, heddle_command_time_t* out_times);
} heddle_profile_interface_t;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* HEDDLE_EXT_PROFILE_H_ */
