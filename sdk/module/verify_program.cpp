// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks of host programs: every operand of every instruction, every site, every value.
#include "sdk/module/verify_program.h"

#include <algorithm>
#include <vector>

#include "heddle/ext/library.h"
#include "sdk/module/element_types.h"
#include "sdk/module/verifier.h"

namespace heddle::module {
namespace {

namespace mf = module_format;
using mf::Op;
using mf::ValueKind;

constexpr uint32_t kNoRegister = 0xFFFFFFFFu;
constexpr uint32_t kRead = 1, kWrite = 2;
constexpr int64_t kMostPitch = int64_t{1} << 48;  // elements; so that its bytes do not overflow

// Instructions [first, last].
struct Life {
  uint32_t first = 0, last = 0xFFFFFFFFu;
};

class ProgramChecker {
 public:
  ProgramChecker(const mf::Module& module, const mf::Function* function, const mf::Program& program, const std::string& name,
                 WorkBudget& budget)
      : module_(module), function_(function), program_(program), name_(name), budget_(budget) {}

  bool run() { return present() && affordable() && families() && values() && transients() && texts() && checks() && sites() && code(); }
  Status error() const { return error_; }

 private:
  template <typename... Parts>
  bool fail(const Parts&... parts) {
    error_ = Error{HEDDLE_STATUS_DATA_LOSS, concat(name_, ": ", parts...)};
    return false;
  }
  // Checks index < count; the error names place, thing, value and limit.
  template <typename... Where>
  bool below(uint64_t index, uint64_t count, std::string_view what, const Where&... where) {
    if (index < count) return true;
    if (count == 0) return fail(where..., what, " ", index, " does not exist, there is none");
    return fail(where..., what, " ", index, " is outside 0..", count - 1);
  }
  template <typename... Where>
  bool reg(uint32_t index, const Where&... where) {
    return below(index, program_.register_count(), "register", where...);
  }

  bool present() {
    if (!all_usable(program_.families(), program_.literals(), program_.messages(), program_.code(), program_.values(),
                    program_.transients(), program_.dispatches(), program_.copies(), program_.fills())) {
      return fail("a vector is missing or misaligned");
    }
    if (program_.checks() && !usable(program_.checks()->all())) return fail("the vector of checks is misaligned");
    if (program_.register_count() > kMaxRegisters) return fail("register count ", program_.register_count(), " is above ", kMaxRegisters);
    return true;
  }

  bool affordable() {
    const uint64_t bytes = uint64_t{8} * program_.literals()->size() + sizeof(mf::Instruction) * uint64_t{program_.code()->size()} +
                           sizeof(mf::Value) * uint64_t{program_.values()->size()} +
                           sizeof(mf::Transient) * uint64_t{program_.transients()->size()} + uint64_t{4} * program_.dispatches()->size() +
                           sizeof(mf::CopySite) * uint64_t{program_.copies()->size()} +
                           sizeof(mf::FillSite) * uint64_t{program_.fills()->size()} + uint64_t{4} * program_.messages()->size() +
                           sizeof(mf::KernelCheck) * uint64_t{check_count()} + uint64_t{4} * program_.families()->size();
    if (!budget_.take(bytes)) return fail("its vectors are shared with others");
    for (uint32_t i = 0; i < program_.dispatches()->size(); ++i) {
      const mf::DispatchSite* site = program_.dispatches()->Get(i);
      if (!all_usable(site->candidates(), site->bindings(), site->constants()))
        return fail("dispatch site ", i, ": a vector is missing or misaligned");
      if (!budget_.take(uint64_t{4} * site->candidates()->size() + sizeof(mf::BindingRef) * uint64_t{site->bindings()->size()} +
                        uint64_t{4} * site->constants()->size())) {
        return fail("dispatch site ", i, ": its vectors are shared with others");
      }
      if (site->operation() && !affordable(*site->operation(), i)) return false;
      for (const mf::Candidate* candidate : *site->candidates()) {
        if (!all_usable(candidate->guards(), candidate->grid()))
          return fail("dispatch site ", i, ": a vector of a candidate is missing or misaligned");
        if (!budget_.take(sizeof(mf::Guard) * uint64_t{candidate->guards()->size()} + uint64_t{4} * candidate->grid()->size())) {
          return fail("dispatch site ", i, ": vectors of its candidates are shared with others");
        }
      }
    }
    return true;
  }

  bool affordable(const mf::Operation& operation, uint32_t site) {
    if (!all_usable(operation.attributes(), operation.operands()))
      return fail("dispatch site ", site, ": a vector of its operation is missing or misaligned");
    uint64_t bytes = uint64_t{4} * operation.attributes()->size() + sizeof(mf::BindingType) * uint64_t{operation.operands()->size()};
    if (!budget_.take(bytes)) return fail("dispatch site ", site, ": vectors of its operation are shared with others");
    for (const mf::OperationAttribute* attribute : *operation.attributes()) {
      if (!all_usable(attribute->ints(), attribute->floats(), attribute->text()))
        return fail("dispatch site ", site, ": a vector of an attribute is missing or misaligned");
      bytes = uint64_t{8} * (uint64_t{attribute->ints()->size()} + attribute->floats()->size()) + attribute->text()->size();
      if (!budget_.take(bytes)) return fail("dispatch site ", site, ": vectors of its attributes are shared with others");
    }
    return true;
  }

  bool families() {
    const uint32_t slots = module_.slots()->size();
    if (program_.families()->size() != slots) return fail("it names ", program_.families()->size(), " families for ", slots, " slots");
    for (const flatbuffers::String* family : *program_.families()) {
      if (Status bad = verify_name(family, false, "family", budget_)) return fail(bad->message);
    }
    return true;
  }

  bool values() {
    for (uint32_t i = 0; i < program_.values()->size(); ++i) {
      const mf::Value* value = program_.values()->Get(i);
      const uint32_t arguments = function_ ? function_->arguments()->size() : 0;
      const uint32_t results = function_ ? function_->results()->size() : 0;
      bool good = false;
      switch (value->kind()) {
        case ValueKind::Argument:
          good = below(value->index(), arguments, "argument", "value ", i, ": ");
          break;
        case ValueKind::Result:
          good = below(value->index(), results, "result", "value ", i, ": ");
          break;
        case ValueKind::Transient:
          good = below(value->index(), program_.transients()->size(), "transient", "value ", i, ": ");
          break;
        case ValueKind::Global:
          good = below(value->index(), module_.globals()->size(), "global", "value ", i, ": ");
          if (good && function_ && module_.globals()->Get(value->index())->initializer_only()) {
            return fail("value ", i, ": global ", value->index(), " is for the initializer only");
          }
          break;
        case ValueKind::Verdict:
          good = below(value->index(), check_count(), "verdict", "value ", i, ": ");
          if (good && program_.checks()->all()->Get(value->index())->verdict() != value->index())
            return fail("value ", i, ": check ", value->index(), " has its verdict elsewhere");
          break;
        default:
          return fail("value ", i, ": kind ", static_cast<uint32_t>(value->kind()), " is not known");
      }
      if (!good) return false;
    }
    return true;
  }

  bool transients() {
    const uint32_t size = program_.code()->size();
    for (uint32_t i = 0; i < program_.transients()->size(); ++i) {
      const mf::Transient* transient = program_.transients()->Get(i);
      if (!reg(transient->size_register(), "transient ", i, ": ")) return false;
      const uint32_t alignment = transient->alignment();
      if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > kMaxAlignment) {
        return fail("transient ", i, ": alignment ", alignment, " is not a power of two up to ", kMaxAlignment);
      }
      if (transient->first() > transient->last() || transient->last() >= size) {
        return fail("transient ", i, ": it lives from instruction ", transient->first(), " to ", transient->last(), " of ", size);
      }
    }
    return true;
  }

  uint32_t check_count() const { return program_.checks() ? program_.checks()->all()->size() : 0; }

  bool checks() {
    if (check_count() != 0 && !function_) return fail("an initializer has checks of kernels");
    for (uint32_t i = 0; i < check_count(); ++i) {
      const mf::KernelCheck* check = program_.checks()->all()->Get(i);
      if (!below(check->verdict(), i + 1, "verdict", "check ", i, ": ")) return false;
      if (program_.checks()->all()->Get(check->verdict())->verdict() != check->verdict())
        return fail("check ", i, ": check ", check->verdict(), " has its verdict elsewhere");
      if (!below(check->slot(), module_.slots()->size(), "slot", "check ", i, ": ")) return false;
      if (check->kind() > mf::CheckKind::Divisor)
        return fail("check ", i, ": kind ", static_cast<uint32_t>(check->kind()), " is not known");
      if (!reg(check->limit_register(), "check ", i, ": limit ")) return false;
      if (!below(check->message(), program_.messages()->size(), "message", "check ", i, ": ")) return false;
    }
    return true;
  }

  bool texts() {
    for (uint32_t i = 0; i < program_.messages()->size(); ++i) {
      if (Status bad = verify_name(program_.messages()->Get(i), true, "message", budget_)) return fail(bad->message);
    }
    return true;
  }

  // An argument whose memory no result takes.
  bool may_write(uint32_t argument) const {
    if (!function_ || !function_->donations()) return false;
    const auto& donations = *function_->donations()->all();  // in the order of arguments, as was checked
    uint32_t first = 0, count = donations.size();
    while (count > 1) {
      const uint32_t half = count / 2;
      if (donations.Get(first + half)->argument() <= argument) first += half;
      count -= half;
    }
    return count == 1 && donations.Get(first)->argument() == argument && donations.Get(first)->result() < 0;
  }

  // A range of a value that a command reads or writes; `required` is the access that the command certainly makes.
  template <typename... Where>
  bool binding(const mf::BindingRef& ref, uint32_t required, const Where&... where) {
    if (!below(ref.value(), program_.values()->size(), "value", where...)) return false;
    if (ref.offset_register() != kNoRegister && !reg(ref.offset_register(), where..., "offset ")) return false;
    if (ref.length_register() != kNoRegister && !reg(ref.length_register(), where..., "length ")) return false;
    if (ref.access() < kRead || ref.access() > (kRead | kWrite)) return fail(where..., "access ", ref.access(), " is outside 1..3");
    if ((ref.access() & required) != required) return fail(where..., "access ", ref.access(), " lacks ", required, " (1 read, 2 write)");
    const mf::Value* value = program_.values()->Get(ref.value());
    if (value->kind() == ValueKind::Verdict && (ref.access() & kRead) != 0) return fail(where..., "verdict ", value->index(), " is read");
    if ((ref.access() & kWrite) == 0) return true;
    if (value->kind() == ValueKind::Argument && !may_write(value->index()))
      return fail(where..., "argument ", value->index(), " is written");
    if (value->kind() == ValueKind::Global) {
      const mf::GlobalKind kind = module_.globals()->Get(value->index())->kind();
      const bool allowed = kind == mf::GlobalKind::State || (kind == mf::GlobalKind::Derived && function_ == nullptr);
      if (!allowed) return fail(where..., "global ", value->index(), " of kind ", static_cast<uint32_t>(kind), " is written");
    }
    return true;
  }

  bool sites() {
    for (uint32_t i = 0; i < program_.dispatches()->size(); ++i) {
      if (!dispatch_site(i)) return false;
    }
    for (uint32_t i = 0; i < program_.copies()->size(); ++i) {
      const mf::CopySite* site = program_.copies()->Get(i);
      if (!binding(site->source(), kRead, "copy site ", i, ": source: ")) return false;
      if (!binding(site->target(), kWrite, "copy site ", i, ": target: ")) return false;
    }
    for (uint32_t i = 0; i < program_.fills()->size(); ++i) {
      const mf::FillSite* site = program_.fills()->Get(i);
      if (!binding(site->target(), kWrite, "fill site ", i, ": target: ")) return false;
      const uint32_t bytes = site->pattern_bytes();
      if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return fail("fill site ", i, ": pattern of ", bytes, " bytes is not 1, 2, 4 or 8");
    }
    return true;
  }

  // Files before 0.2 have none, nor have programs that do not state them.
  bool binding_types(uint32_t i) {
    const mf::DispatchSite* site = program_.dispatches()->Get(i);
    const auto* types = site->binding_types();
    const auto* dims = site->binding_dims();
    if (!types && !dims) return true;
    // One form of message: this is checked for every file and seldom fails.
    auto wrong = [&](const std::string& text) { return fail("dispatch site ", i, ": ", text); };
    if (!all_usable(types, dims)) return wrong("the types of its bindings are incomplete");
    if (!budget_.take(sizeof(mf::BindingType) * uint64_t{types->size()} + uint64_t{8} * dims->size())) {
      return wrong("its vectors are shared with others");
    }
    if (types->size() != 0 && types->size() != site->bindings()->size()) return wrong("not every binding has a type");
    uint64_t rank = 0;
    for (const mf::BindingType* type : *types) {
      if (type->element_type() != HEDDLE_TYPE_UNDEFINED && !element_type_exists(type->element_type())) {
        return wrong("element type " + std::to_string(type->element_type()) + " of a binding does not exist");
      }
      if (type->rank() > HEDDLE_MAX_RANK) return wrong("rank " + std::to_string(type->rank()) + " of a binding is above 16");
      rank += type->rank();
    }
    if (rank != dims->size()) return wrong("the ranks of its bindings do not add up to their dimensions");
    for (int64_t dim : *dims) {
      if (dim < -1) return wrong("dimension " + std::to_string(dim) + " of a binding is negative");
    }
    return true;
  }

  // Since 0.3. Only a binding of a known type has rows.
  bool binding_pitches(uint32_t i) {
    const mf::DispatchSite* site = program_.dispatches()->Get(i);
    auto wrong = [&](const std::string& text) { return fail("dispatch site ", i, ": ", text); };
    if (!site->binding_pitches()) return true;
    const auto* pitches = site->binding_pitches()->all();
    if (!all_usable(pitches)) return wrong("the pitches of its bindings are missing or misaligned");
    if (!budget_.take(uint64_t{8} * pitches->size())) return wrong("its vectors are shared with others");
    const auto* types = site->binding_types();
    if (!types || types->size() != pitches->size() || pitches->size() != site->bindings()->size())
      return wrong("not every binding has a type and a pitch");
    uint32_t end = 0;
    for (uint32_t k = 0; k < pitches->size(); ++k) {
      const mf::BindingType* type = types->Get(k);
      end += type->rank();
      const int64_t pitch = pitches->Get(k), row = type->rank() == 0 ? -1 : site->binding_dims()->Get(end - 1);
      if (pitch == 0) continue;
      if (type->element_type() == HEDDLE_TYPE_UNDEFINED || row < 0 || pitch < row || pitch > kMostPitch)
        return wrong("pitch " + std::to_string(pitch) + " of a binding with rows of " + std::to_string(row) + " is not possible");
    }
    return true;
  }

  bool dispatch_site(uint32_t i) {
    const mf::DispatchSite* site = program_.dispatches()->Get(i);
    if (Status bad = verify_name(site->name(), true, "name", budget_)) return fail("dispatch site ", i, ": ", bad->message);
    if (!below(site->slot(), module_.slots()->size(), "slot", "dispatch site ", i, ": ")) return false;
    const bool has_kernels = site->candidates()->size() != 0;
    if (!has_kernels && !site->operation()) return fail("dispatch site ", i, ": it has no candidate");
    if (has_kernels && !below(site->executable(), module_.executables()->size(), "executable", "dispatch site ", i, ": ")) return false;
    Life life;
    for (uint32_t b = 0; b < site->bindings()->size(); ++b) {
      const mf::BindingRef& ref = *site->bindings()->Get(b);
      if (!binding(ref, 0, "dispatch site ", i, ": binding ", b, ": ")) return false;
      const mf::Value* value = program_.values()->Get(ref.value());
      if (value->kind() != ValueKind::Transient) continue;
      const mf::Transient* transient = program_.transients()->Get(value->index());
      life = {std::max(life.first, transient->first()), std::min(life.last, transient->last())};
    }
    site_lives_.push_back(life);
    for (uint32_t register_index : *site->constants()) {
      if (!reg(register_index, "dispatch site ", i, ": constant ")) return false;
    }
    uint64_t extents = 0;  // number of extents among the constants
    if (site->operation() && !operation(*site->operation(), *site, i, &extents)) return false;
    if (!has_kernels) return binding_types(i) && binding_pitches(i);
    const uint64_t constants_bytes = 8 * (uint64_t{site->constants()->size()} - extents);
    const auto& entries = *module_.executables()->Get(site->executable())->entries();
    for (uint32_t c = 0; c < site->candidates()->size(); ++c) {
      const mf::Candidate* candidate = site->candidates()->Get(c);
      if (!all_usable(candidate->guards(), candidate->grid()))
        return fail("dispatch site ", i, ": candidate ", c, ": a vector is missing or misaligned");
      if (!below(candidate->entry(), entries.size(), "entry", "dispatch site ", i, ": candidate ", c, ": ")) return false;
      const mf::Entry* entry = entries.Get(candidate->entry());
      if (site->bindings()->size() != entry->binding_count()) {
        return fail("dispatch site ", i, ": ", site->bindings()->size(), " bindings, entry ", candidate->entry(), " takes ",
                    entry->binding_count());
      }
      if (constants_bytes != entry->constants_bytes()) {
        return fail("dispatch site ", i, ": ", constants_bytes, " bytes of constants, entry ", candidate->entry(), " takes ",
                    entry->constants_bytes());
      }
      if (candidate->grid()->size() != 3)
        return fail("dispatch site ", i, ": candidate ", c, ": grid of ", candidate->grid()->size(), " registers, not 3");
      for (uint32_t register_index : *candidate->grid()) {
        if (!reg(register_index, "dispatch site ", i, ": candidate ", c, ": grid ")) return false;
      }
      for (uint32_t g = 0; g < candidate->guards()->size(); ++g) {
        const mf::Guard* guard = candidate->guards()->Get(g);
        if (!reg(guard->register_(), "dispatch site ", i, ": candidate ", c, ": guard ")) return false;
        if (guard->divisor() <= 0)
          return fail("dispatch site ", i, ": candidate ", c, ": guard ", g, ": divisor ", guard->divisor(), " is not positive");
        if (guard->min() > guard->max())
          return fail("dispatch site ", i, ": candidate ", c, ": guard ", g, ": range ", guard->min(), "..", guard->max(), " is empty");
      }
    }
    return binding_types(i) && binding_pitches(i);
  }

  // out_extents: the number of its operands' extents, at most the number of the site's constants.
  bool operation(const mf::Operation& operation, const mf::DispatchSite& site, uint32_t i, uint64_t* out_extents) {
    auto wrong = [&](const auto&... parts) { return fail("dispatch site ", i, ": operation: ", parts...); };
    if (Status bad = verify_name(operation.domain(), false, "domain", budget_)) return wrong(bad->message);
    if (Status bad = verify_name(operation.name(), false, "name", budget_)) return wrong(bad->message);
    if (operation.version() == 0) return wrong("version 0 is below 1");
    const bool alone = site.candidates()->size() == 0;
    if (alone && site.executable() != 0) return wrong("its site has no candidate of executable ", site.executable());
    const uint32_t count = operation.operands()->size();
    if (count > HEDDLE_MAX_OPERANDS) return wrong(count, " operands are above ", HEDDLE_MAX_OPERANDS);
    if (count != site.bindings()->size()) return wrong(count, " operands and ", site.bindings()->size(), " bindings");
    if (operation.input_count() >= count)
      return wrong("of ", count, " operands ", operation.input_count(), " are inputs, and none is an output");
    uint64_t extents = 0;
    for (uint32_t k = 0; k < count; ++k) {
      const mf::BindingType* type = operation.operands()->Get(k);
      if (!element_type_exists(type->element_type())) return wrong("operand ", k, ": element type ", type->element_type(), " is not known");
      if (type->rank() > HEDDLE_MAX_RANK) return wrong("operand ", k, ": rank ", type->rank(), " is above ", HEDDLE_MAX_RANK);
      const uint32_t access = k < operation.input_count() ? kRead : kWrite;
      if (site.bindings()->Get(k)->access() != access)
        return wrong("operand ", k, ": access ", site.bindings()->Get(k)->access(), ", expected ", access, " (1 read, 2 write)");
      extents += type->rank();
    }
    *out_extents = extents;
    if (alone ? extents != site.constants()->size() : extents > site.constants()->size())
      return wrong("its operands have ", extents, " extents, its site ", site.constants()->size());
    if (operation.attributes()->size() > HEDDLE_MAX_ATTRIBUTES)
      return wrong(operation.attributes()->size(), " attributes are above ", HEDDLE_MAX_ATTRIBUTES);
    std::string_view last;
    for (const mf::OperationAttribute* attribute : *operation.attributes()) {
      if (Status bad = verify_name(attribute->name(), false, "attribute", budget_)) return wrong(bad->message);
      const std::string_view attribute_name = attribute->name()->string_view();
      if (attribute_name <= last) return wrong("attribute ", in_quotes(attribute_name), " is not after ", in_quotes(last));
      last = attribute_name;
      const uint32_t kind = attribute->kind();
      const bool of_ints = kind == HEDDLE_ATTRIBUTE_INT || kind == HEDDLE_ATTRIBUTE_INTS;
      const bool of_floats = kind == HEDDLE_ATTRIBUTE_FLOAT || kind == HEDDLE_ATTRIBUTE_FLOATS;
      if (!of_ints && !of_floats && kind != HEDDLE_ATTRIBUTE_STRING)
        return wrong("attribute ", in_quotes(attribute_name), ": kind ", kind, " is not known");
      const bool one = kind == HEDDLE_ATTRIBUTE_INT || kind == HEDDLE_ATTRIBUTE_FLOAT;
      const uint32_t ints = attribute->ints()->size(), floats = attribute->floats()->size(), text = attribute->text()->size();
      if ((!of_ints && ints != 0) || (!of_floats && floats != 0) || (kind != HEDDLE_ATTRIBUTE_STRING && text != 0) ||
          (one && ints + floats != 1)) {
        return wrong("attribute ", in_quotes(attribute_name), ": kind ", kind, " with ", ints, " ints, ", floats, " floats and ", text,
                     " bytes of text");
      }
    }
    return true;
  }

  // A command at `pc` uses the value: a transient must be live there.
  bool alive(uint32_t value_index, uint32_t pc) {
    const mf::Value* value = program_.values()->Get(value_index);
    if (value->kind() != ValueKind::Transient) return true;
    const mf::Transient* transient = program_.transients()->Get(value->index());
    if (transient->first() <= pc && pc <= transient->last()) return true;
    return fail("instruction ", pc, ": transient ", value->index(), " is used outside its lifetime,  ", transient->first(), "..",
                transient->last());
  }

  bool code() {
    const uint32_t size = program_.code()->size();
    if (size == 0) return fail("it has no instruction");
    for (uint32_t pc = 0; pc < size; ++pc) {
      if (!instruction(pc, *program_.code()->Get(pc))) return false;
    }
    const Op last = static_cast<Op>(program_.code()->Get(size - 1)->op());
    if (last != Op::Return && last != Op::Branch) return fail("instruction ", size - 1, ": the last one is neither Return nor Branch");
    return true;
  }

  bool dimension(uint32_t tensor, uint32_t dim, bool of_argument, uint32_t pc) {
    const auto* tensors = function_ ? (of_argument ? function_->arguments() : function_->results()) : nullptr;
    const std::string_view what = of_argument ? "argument" : "result";
    if (!below(tensor, tensors ? tensors->size() : 0, what, "instruction ", pc, ": ")) return false;
    return below(dim, tensors->Get(tensor)->dims()->size(), "dimension", "instruction ", pc, ": ", what, " ", tensor, ": ");
  }

  bool instruction(uint32_t pc, const mf::Instruction& at) {
    const uint32_t a = at.a(), b = at.b(), c = at.c();
    auto r = [&](uint32_t index) { return reg(index, "instruction ", pc, ": "); };
    auto in = [&](uint32_t index, uint64_t count, std::string_view what) { return below(index, count, what, "instruction ", pc, ": "); };
    if (at.reserved() != 0) return fail("instruction ", pc, ": reserved bits ", at.reserved(), " are not zero");
    switch (static_cast<Op>(at.op())) {
      case Op::Return:
      case Op::Barrier:
      case Op::Submit:
        return true;
      case Op::Literal:
        return r(a) && in(b, program_.literals()->size(), "literal");
      case Op::Move:
        return r(a) && r(b);
      case Op::Add:
      case Op::Sub:
      case Op::Mul:
      case Op::FloorDiv:
      case Op::CeilDiv:
      case Op::Mod:
      case Op::Min:
      case Op::Max:
      case Op::Equal:
      case Op::Less:
      case Op::LessEqual:
        return r(a) && r(b) && r(c);
      case Op::Branch:
        return in(a, program_.code()->size(), "branch target");
      case Op::BranchIf:
        return in(a, program_.code()->size(), "branch target") && r(b);
      case Op::ArgumentDim:
        return r(a) && dimension(b, c, true, pc);
      case Op::ResultDim:
        return dimension(a, b, false, pc) && r(c);
      case Op::Check:
        return in(a, program_.messages()->size(), "message") && r(b);
      case Op::Dispatch: {
        if (!in(a, program_.dispatches()->size(), "dispatch site")) return false;
        // Many instructions may name one site with many bindings: these are only checked again to tell which one is wrong.
        if (site_lives_[a].first <= pc && pc <= site_lives_[a].last) return true;
        for (const mf::BindingRef* ref : *program_.dispatches()->Get(a)->bindings()) {
          if (!alive(ref->value(), pc)) return false;
        }
        return true;
      }
      case Op::Copy: {
        if (!in(a, program_.copies()->size(), "copy site")) return false;
        const mf::CopySite* site = program_.copies()->Get(a);
        return alive(site->source().value(), pc) && alive(site->target().value(), pc);
      }
      case Op::Fill:
        return in(a, program_.fills()->size(), "fill site") && alive(program_.fills()->Get(a)->target().value(), pc);
      case Op::ReadScalar:
        if (!r(a) || !in(b, program_.values()->size(), "value") || !r(c)) return false;
        if (program_.values()->Get(b)->kind() == ValueKind::Verdict) return fail("instruction ", pc, ": a verdict is read");
        return alive(b, pc);
      case Op::ComputeUnits:
        return r(a) && in(b, module_.slots()->size(), "slot");
    }
    return fail("instruction ", pc, ": operation ", at.op(), " is not known");
  }

  const mf::Module& module_;
  const mf::Function* function_;
  const mf::Program& program_;
  const std::string& name_;
  WorkBudget& budget_;
  std::vector<Life> site_lives_;  // where all values of a dispatch site are live
  Status error_;
};

}  // namespace

Status verify_program(const mf::Module& module, const mf::Function* function, const mf::Program& program, const std::string& name,
                      WorkBudget& budget) {
  ProgramChecker checker(module, function, program, name, budget);
  return checker.run() ? Status() : checker.error();
}

}  // namespace heddle::module
