// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// See mnemonics.h.
#include "tests/amdgpu/mnemonics.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tests/amdgpu/machine.h"

namespace heddle::amdgpu {
namespace {

// Renames an instruction of GFX11 or GFX12 to the same one of GFX9. The first prefix that matches counts.
const std::pair<const char*, const char*> kRenamed[] = {
    {"s_add_co_ci_u32", "s_addc_u32"},
    {"s_sub_co_ci_u32", "s_subb_u32"},
    {"s_add_co_", "s_add_"},
    {"s_sub_co_", "s_sub_"},
    {"s_addk_co_i32", "s_addk_i32"},
    {"v_mad_co_", "v_mad_"},
    {"v_min_num_", "v_min_"},
    {"v_max_num_", "v_max_"},
    {"v_min3_num_", "v_min3_"},
    {"v_max3_num_", "v_max3_"},
    {"v_med3_num_", "v_med3_"},
    {"v_minmax_num_", "v_minmax_"},
    {"v_maxmin_num_", "v_maxmin_"},
    {"v_pk_min_num_", "v_pk_min_"},
    {"v_pk_max_num_", "v_pk_max_"},
    {"s_min_num_", "s_min_"},
    {"s_max_num_", "s_max_"},
    {"ds_min_num_", "ds_min_"},
    {"ds_max_num_", "ds_max_"},
    {"ds_min_rtn_num_", "ds_min_rtn_"},
    {"ds_max_rtn_num_", "ds_max_rtn_"},
    {"global_atomic_min_num_", "global_atomic_min_"},
    {"global_atomic_max_num_", "global_atomic_max_"},
    {"s_and_not1_", "s_andn2_"},
    {"s_or_not1_", "s_orn2_"},
    {"s_and_not0_", "s_andn1_"},
    {"s_or_not0_", "s_orn1_"},
    {"s_ctz_i32_", "s_ff1_i32_"},
    {"s_clz_i32_u32", "s_flbit_i32_b32"},
    {"s_clz_i32_u64", "s_flbit_i32_b64"},
    {"s_cls_i32_i64", "s_flbit_i32_i64"},
    {"s_cls_i32", "s_flbit_i32"},
    {"v_add_nc_", "v_add_"},
    {"v_sub_nc_", "v_sub_"},
    {"v_subrev_nc_", "v_subrev_"},
    {"v_add_co_ci_", "v_addc_co_"},
    {"v_sub_co_ci_", "v_subb_co_"},
    {"v_subrev_co_ci_", "v_subbrev_co_"},
    {"v_clz_i32_u32", "v_ffbh_u32"},
    {"v_ctz_i32_b32", "v_ffbl_b32"},
    {"v_cls_i32", "v_ffbh_i32"},
    {"v_cvt_pk_rtz_", "v_cvt_pkrtz_"},
    {"v_cvt_floor_i32_f32", "v_cvt_flr_i32_f32"},
    {"v_cvt_pk_norm_", "v_cvt_pknorm_"},
    {"v_mul_dx9_zero_", "v_mul_legacy_"},
};

}  // namespace

std::string canonical(std::string_view mnemonic) {
  for (const char* suffix : {"_e64_dpp", "_dpp8", "_dpp", "_e32", "_e64", "_sdwa"}) {
    if (mnemonic.size() > strlen(suffix) && mnemonic.ends_with(suffix)) {
      mnemonic.remove_suffix(strlen(suffix));
      break;
    }
  }
  std::string name(mnemonic);
  if (mnemonic.starts_with("v_dual_")) name = "v_" + name.substr(strlen("v_dual_"));
  for (const auto& [from, to] : kRenamed) {
    if (name.starts_with(from)) return to + name.substr(strlen(from));
  }
  if (name == "v_accvgpr_read" || name == "v_accvgpr_write") return name + "_b32";
  return name;
}

std::vector<std::string> mnemonics_of(const std::string& text) {
  std::vector<std::string> found;
  for (size_t start = 0; start != std::string::npos;) {
    const size_t begin = text.find_first_not_of(" \t", start), next = text.find(" :: ", start);
    if (begin == std::string::npos) break;
    const size_t end = std::min(text.find_first_of(" \t", begin), text.size());
    found.push_back(canonical(std::string_view(text).substr(begin, end - begin)));
    start = next == std::string::npos ? next : next + strlen(" :: ");
  }
  return found;
}

}  // namespace heddle::amdgpu
