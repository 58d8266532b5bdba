// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of fmt, compiled once and linked statically: Debian has no archive of them, and as headers alone they cost every file that
// formats a text two seconds. Instantiates what fmt/format.h declares as `extern template`.
#include <fmt/format-inl.h>

FMT_BEGIN_NAMESPACE
namespace detail {
template auto thousands_sep_impl<char>(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl<char>(locale_ref) -> char;
}  // namespace detail
FMT_END_NAMESPACE
