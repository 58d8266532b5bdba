// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See shared.h. A table is a list: there are about as many objects as modules.
#include "core/submit/shared.h"

#include <cstring>

namespace heddle::submit {

Shareable* SharedTable::find(std::unique_ptr<Shareable> fresh) {
  std::lock_guard lock(mutex_);
  for (Shareable* one = first_; one; one = one->next_) {
    const bool is_same =
        one->key == fresh->key && one->bytes.size() == fresh->bytes.size() &&
        (one->bytes.data() == fresh->bytes.data() || std::memcmp(one->bytes.data(), fresh->bytes.data(), one->bytes.size()) == 0);
    if (!is_same) continue;
    ++one->users_;
    return one;
  }
  fresh->table_ = this;
  fresh->next_ = first_;
  return first_ = fresh.release();
}

void Unshare::operator()(Shareable* object) const {
  {
    std::lock_guard lock(object->table_->mutex_);
    if (--object->users_ != 0) return;
    Shareable** at = &object->table_->first_;
    while (*at != object) at = &(*at)->next_;
    *at = object->next_;
  }
  delete object;
}

}  // namespace heddle::submit
