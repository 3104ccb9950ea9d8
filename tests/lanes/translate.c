/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lanes/translate.h"

#include "manifests/amd.h"
#include "runtime/base/array.h"
#include "tests/lanes/lanes.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

#include <stdio.h>
#include <string.h>

enum { SHARED_SPACE = 3, GUARD_BYTES = 128, SHARED_MAX = 16, C_CALL = 0, PARAMS_MAX = 2048 };
static const char triple[] = "x86_64-unknown-linux-gnu", cpu[] = "x86-64-v3";

typedef struct translation {
    tsr_ctx *ctx;
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMBuilderRef builder;
    LLVMTargetMachineRef machine;
    LLVMTargetDataRef layout;
    LLVMTypeRef i32, i64, pointer;
    const char *line; /* text of the current instruction */
} translation;

/* ---- instructions ---------------------------------------------------------------------------- */

/* An intrinsic, the function that stands for it, and which of its operands that function takes:
 * digits. `p`: the site, too. */
static const struct {
    const char *intrinsic, *function, *operands;
    bool ballot;
} calls[] = {{"llvm.amdgcn.workitem.id.x", "lanes_thread", "", false},
             {"llvm.amdgcn.workgroup.id.x", "lanes_block", "", false},
             {"llvm.amdgcn.dispatch.ptr", "lanes_dispatch", "", false},
             {"llvm.amdgcn.readfirstlane", "lanes_first", "0p", false},
             {"llvm.amdgcn.readlane", "lanes_read", "01p", false},
             {"llvm.amdgcn.ds.bpermute", "lanes_bpermute", "01p", false},
             {"llvm.amdgcn.ds.swizzle", "lanes_swizzle", "01p", false},
             {"llvm.amdgcn.update.dpp", "lanes_dpp", "12p", false},
             {"llvm.amdgcn.permlanex16", "lanes_permlanex16", "123p", false},
             {"llvm.amdgcn.ballot", "lanes_ballot", "0p", true},
             {"llvm.amdgcn.wave.barrier", "lanes_wave_barrier", "p", false},
             {"llvm.amdgcn.s.barrier", "lanes_block_barrier", "p", false}};

static const struct {
    const char *intrinsic;
    unsigned elements; /* of an operand */
} matrices[] = {
#define X(id, name, elements, lanes, depth, type) {name, elements},
    LANES_MATRICES(X)
#undef X
};

static LLVMValueRef function_of(translation *t, const char *name, LLVMTypeRef type) {
    LLVMValueRef function = LLVMGetNamedFunction(t->module, name);
    return function ? function : LLVMAddFunction(t->module, name, type);
}

/* A global with the text of the instruction. */
static LLVMValueRef site_of(translation *t) {
    return LLVMBuildGlobalString(t->builder, t->line, "site");
}

/* Returns the next line of a function's text that begins an instruction, cut off; NULL: none. To
 * print one instruction, LLVM numbers the whole module. */
static char *next_line(char **text) {
    char *line = NULL;
    while (!line && *text) {
        char *end = strchr(*text, '\n');
        bool begins = strncmp(*text, "  ", 2) == 0 && (*text)[2] != ' ' && (*text)[2] != ']';
        if (begins) line = *text + 2;
        if (end) *end++ = 0;
        *text = end;
    }
    return line;
}

/* The row for an intrinsic; the suffix of its type does not count. */
static size_t find_row(const char *name) {
    size_t row = 0;
    while (row < TSR_COUNT(calls)) {
        size_t length = strlen(calls[row].intrinsic);
        if (strncmp(calls[row].intrinsic, name, length) == 0 &&
            (!name[length] || name[length] == '.'))
            break;
        row++;
    }
    return row;
}

/* A call of the function for words of 32 bits; `word` replaces operand 0 unless it is NULL. */
static LLVMValueRef call_row(translation *t, LLVMValueRef call, size_t row, LLVMValueRef word,
                             LLVMTypeRef returned) {
    LLVMValueRef args[8];
    LLVMTypeRef types[8];
    unsigned count = 0;
    for (const char *c = calls[row].operands; *c; c++) {
        LLVMValueRef value = *c == 'p'           ? site_of(t)
                             : *c == '0' && word ? word
                                                 : LLVMGetOperand(call, (unsigned)(*c - '0'));
        if (LLVMGetTypeKind(LLVMTypeOf(value)) == LLVMIntegerTypeKind)
            value = LLVMBuildIntCast2(t->builder, value, t->i32, false, "");
        types[count] = LLVMTypeOf(value);
        args[count++] = value;
    }
    LLVMTypeRef type = LLVMFunctionType(returned, types, count, false);
    return LLVMBuildCall2(t->builder, type, function_of(t, calls[row].function, type), args, count,
                          "");
}

/* LLVM moves exchanges past conversions: values of other types, as words. */
static LLVMValueRef exchange_words(translation *t, LLVMValueRef call, size_t row) {
    LLVMBuilderRef b = t->builder;
    LLVMTypeRef type = LLVMTypeOf(call);
    uint64_t bits = LLVMSizeOfTypeInBits(t->layout, type);
    LLVMTypeRef integer = LLVMIntTypeInContext(t->llvm, (unsigned)bits);
    LLVMValueRef value = LLVMBuildBitCast(b, LLVMGetOperand(call, 0), integer, "");
    LLVMValueRef shift = LLVMConstInt(integer, 32, false);
    LLVMValueRef low =
        call_row(t, call, row, LLVMBuildIntCast2(b, value, t->i32, false, ""), t->i32);
    low = LLVMBuildIntCast2(b, low, integer, false, "");
    if (bits > 32) {
        LLVMValueRef high = LLVMBuildTrunc(b, LLVMBuildLShr(b, value, shift, ""), t->i32, "");
        high = LLVMBuildZExt(b, call_row(t, call, row, high, t->i32), integer, "");
        low = LLVMBuildOr(b, low, LLVMBuildShl(b, high, shift, ""), "");
    }
    return LLVMBuildBitCast(b, low, type, "");
}

/* The number of the instruction of matrix units; else LANES_MATRIX_COUNT. */
static unsigned find_matrix(const char *name, LLVMValueRef call) {
    LLVMTypeRef type = LLVMTypeOf(LLVMGetOperand(call, 0));
    unsigned elements = LLVMGetTypeKind(type) == LLVMVectorTypeKind ? LLVMGetVectorSize(type) : 1,
             row = 0;
    for (; row < LANES_MATRIX_COUNT; row++) {
        size_t length = strlen(matrices[row].intrinsic);
        bool named = strncmp(matrices[row].intrinsic, name, length) == 0 &&
                     (!name[length] || name[length] == '.');
        if (named && matrices[row].elements == elements) break;
    }
    return row;
}

/* Memory of the lane, allocated once. */
static LLVMValueRef memory_of(translation *t, LLVMValueRef call, LLVMTypeRef type) {
    LLVMValueRef function = LLVMGetBasicBlockParent(LLVMGetInstructionParent(call));
    LLVMPositionBuilderBefore(t->builder,
                              LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(function)));
    LLVMValueRef memory = LLVMBuildAlloca(t->builder, type, "");
    LLVMPositionBuilderBefore(t->builder, call);
    return memory;
}

static void replace_matrix(translation *t, LLVMValueRef call, unsigned id) {
    enum { OPERANDS = 3 };
    LLVMBuilderRef b = t->builder;
    LLVMValueRef args[OPERANDS + 3] = {LLVMConstInt(t->i32, id, false)};
    LLVMTypeRef types[OPERANDS + 3] = {t->i32}, result = LLVMTypeOf(call);
    for (unsigned i = 0; i < OPERANDS; i++) {
        LLVMValueRef value = LLVMGetOperand(call, i);
        args[1 + i] = memory_of(t, call, LLVMTypeOf(value));
        LLVMBuildStore(b, value, args[1 + i]);
    }
    args[OPERANDS + 1] = memory_of(t, call, result);
    args[OPERANDS + 2] = site_of(t);
    for (unsigned i = 1; i < OPERANDS + 3; i++) types[i] = t->pointer;
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(t->llvm), types, OPERANDS + 3, false);
    LLVMBuildCall2(b, type, function_of(t, "lanes_matrix", type), args, OPERANDS + 3, "");
    LLVMReplaceAllUsesWith(call, LLVMBuildLoad2(b, result, args[OPERANDS + 1], ""));
    LLVMInstructionEraseFromParent(call);
}

static TSR_RESULT replace_call(translation *t, LLVMValueRef call, const char *name) {
    unsigned matrix = find_matrix(name, call);
    if (matrix < LANES_MATRIX_COUNT) {
        replace_matrix(t, call, matrix);
        return TSR_SUCCESS;
    }
    size_t row = find_row(name);
    LLVMTypeRef result = LLVMTypeOf(call);
    LLVMTypeKind kind = LLVMGetTypeKind(result);
    LLVMValueRef value = NULL;
    if (row == TSR_COUNT(calls)) FAIL(t->ctx, TSR_USAGE, "the simulator has no '%s'", name);
    LLVMPositionBuilderBefore(t->builder, call);
    if (kind == LLVMVoidTypeKind)
        call_row(t, call, row, NULL, result);
    else if (kind == LLVMPointerTypeKind)
        value = LLVMBuildAddrSpaceCast(t->builder, call_row(t, call, row, NULL, t->pointer), result,
                                       "");
    else if (calls[row].ballot)
        value =
            LLVMBuildIntCast2(t->builder, call_row(t, call, row, NULL, t->i64), result, false, "");
    else if (calls[row].operands[0] == '0' && result != t->i32)
        value = exchange_words(t, call, row);
    else if (result == t->i32)
        value = call_row(t, call, row, NULL, result);
    else
        FAIL(t->ctx, TSR_USAGE, "the simulator has no '%s'", name);
    if (value) LLVMReplaceAllUsesWith(call, value);
    LLVMInstructionEraseFromParent(call);
    return TSR_SUCCESS;
}

/* Tells the simulator about an access of memory that may be shared. */
static void watch(translation *t, LLVMValueRef access, LLVMValueRef at, LLVMTypeRef accessed,
                  uint32_t kind) {
    unsigned space = LLVMGetPointerAddressSpace(LLVMTypeOf(at));
    if (space != 0 && space != SHARED_SPACE) return;
    LLVMPositionBuilderBefore(t->builder, access);
    uint64_t size = LLVMStoreSizeOfType(t->layout, accessed);
    LLVMValueRef args[] = {LLVMBuildAddrSpaceCast(t->builder, at, t->pointer, ""),
                           LLVMConstInt(t->i64, size, false), LLVMConstInt(t->i32, kind, false),
                           site_of(t)};
    LLVMTypeRef types[] = {t->pointer, t->i64, t->i32, t->pointer};
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(t->llvm), types, 4, false);
    LLVMBuildCall2(t->builder, type, function_of(t, "lanes_access", type), args, 4, "");
}

static TSR_RESULT translate_instruction(translation *t, LLVMValueRef one) {
    size_t size = 0;
    switch (LLVMGetInstructionOpcode(one)) {
    case LLVMLoad:
        watch(t, one, LLVMGetOperand(one, 0), LLVMTypeOf(one), LANES_LOAD);
        break;
    case LLVMStore:
        watch(t, one, LLVMGetOperand(one, 1), LLVMTypeOf(LLVMGetOperand(one, 0)), LANES_STORE);
        break;
    case LLVMCall: {
        LLVMValueRef callee = LLVMGetCalledValue(one);
        const char *name = LLVMIsAFunction(callee) ? LLVMGetValueName2(callee, &size) : "";
        if (strncmp(name, "llvm.amdgcn.", strlen("llvm.amdgcn.")) == 0)
            return replace_call(t, one, name);
        break;
    }
    default:
        break;
    }
    return TSR_SUCCESS;
}

static TSR_RESULT translate_body(translation *t, LLVMValueRef function) {
    char *text = LLVMPrintValueToString(function), *left = text;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b), next; i; i = next) {
            next = LLVMGetNextInstruction(i);
            t->line = next_line(&left);
            TSR_ASSERT(t->line);
            TRY(t->ctx, translate_instruction(t, i));
        }
    const char *more = next_line(&left);
    TSR_ASSERT(!more); /* one line for each instruction */
    LLVMDisposeMessage(text);
    return TSR_SUCCESS;
}

/* ---- shared memory --------------------------------------------------------------------------- */

/* Gives each global in shared memory its place among the watched bytes, and a gap after it. */
static void set_shared(translation *t) {
    LLVMTypeRef i8 = LLVMInt8TypeInContext(t->llvm);
    for (LLVMValueRef g = LLVMGetFirstGlobal(t->module), next; g; g = next) {
        next = LLVMGetNextGlobal(g);
        LLVMTypeRef type = LLVMGlobalGetValueType(g);
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(g)) != SHARED_SPACE) continue;
        if (LLVMGetSection(g) && *LLVMGetSection(g)) continue; /* moved before */
        bool dynamic = LLVMGetLinkage(g) == LLVMExternalLinkage;
        LLVMTypeRef parts[] = {dynamic ? LLVMArrayType2(i8, LANES_DYNAMIC) : type,
                               LLVMArrayType2(i8, GUARD_BYTES)};
        LLVMTypeRef both = LLVMStructTypeInContext(t->llvm, parts, 2, false);
        LLVMValueRef moved = LLVMAddGlobalInAddressSpace(
            t->module, both, dynamic ? "dynamic" : "moved", SHARED_SPACE);
        LLVMSetInitializer(moved, LLVMConstNull(both));
        LLVMSetLinkage(moved, LLVMInternalLinkage);
        LLVMSetSection(moved, "lds");
        LLVMSetAlignment(moved, GUARD_BYTES);
        LLVMReplaceAllUsesWith(g, moved);
        LLVMDeleteGlobal(g);
    }
}

static bool is_used_in(LLVMValueRef value, LLVMValueRef function) {
    for (LLVMUseRef use = LLVMGetFirstUse(value); use; use = LLVMGetNextUse(use)) {
        LLVMValueRef user = LLVMGetUser(use);
        if (!LLVMIsAInstruction(user)) {
            if (is_used_in(user, function)) return true;
            continue;
        }
        if (LLVMGetBasicBlockParent(LLVMGetInstructionParent(user)) == function) return true;
    }
    return false;
}

/* A table of the kernel's shared memory. */
static LLVMValueRef shared_table(translation *t, LLVMValueRef function, unsigned *out_count) {
    LLVMTypeRef fields[] = {t->pointer, t->i64};
    LLVMTypeRef row = LLVMStructTypeInContext(t->llvm, fields, 2, false);
    LLVMValueRef rows[SHARED_MAX];
    size_t size = 0;
    *out_count = 0;
    for (LLVMValueRef g = LLVMGetFirstGlobal(t->module); g; g = LLVMGetNextGlobal(g)) {
        if (LLVMGetPointerAddressSpace(LLVMTypeOf(g)) != SHARED_SPACE || !is_used_in(g, function))
            continue;
        TSR_ASSERT(*out_count < SHARED_MAX);
        LLVMTypeRef part = LLVMStructGetTypeAtIndex(LLVMGlobalGetValueType(g), 0);
        bool dynamic = strncmp(LLVMGetValueName2(g, &size), "dynamic", strlen("dynamic")) == 0;
        LLVMValueRef values[] = {
            LLVMConstAddrSpaceCast(g, t->pointer),
            LLVMConstInt(t->i64, dynamic ? 0 : LLVMStoreSizeOfType(t->layout, part), false)};
        rows[(*out_count)++] = LLVMConstStructInContext(t->llvm, values, 2, false);
    }
    LLVMValueRef table =
        LLVMAddGlobal(t->module, LLVMArrayType2(row, *out_count ? *out_count : 1), "shared");
    LLVMSetInitializer(table, *out_count ? LLVMConstArray2(row, rows, *out_count)
                                         : LLVMConstNull(LLVMArrayType2(row, 1)));
    LLVMSetLinkage(table, LLVMInternalLinkage);
    return table;
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* void enter(const uint64_t *parameters): calls the kernel. */
static LLVMValueRef make_enter(translation *t, LLVMValueRef kernel) {
    LLVMTypeRef type = LLVMGlobalGetValueType(kernel), params[PARAMS_MAX];
    LLVMValueRef args[PARAMS_MAX];
    unsigned count = LLVMCountParamTypes(type);
    TSR_ASSERT(count <= PARAMS_MAX);
    LLVMGetParamTypes(type, params);
    LLVMTypeRef own = LLVMFunctionType(LLVMVoidTypeInContext(t->llvm), &t->pointer, 1, false);
    LLVMValueRef enter = LLVMAddFunction(t->module, "enter", own);
    LLVMSetLinkage(enter, LLVMInternalLinkage);
    LLVMPositionBuilderAtEnd(t->builder, LLVMAppendBasicBlockInContext(t->llvm, enter, ""));
    for (unsigned i = 0; i < count; i++) {
        LLVMValueRef index = LLVMConstInt(t->i64, i, false);
        LLVMValueRef at = LLVMBuildGEP2(t->builder, t->i64, LLVMGetParam(enter, 0), &index, 1, "");
        args[i] = LLVMBuildLoad2(t->builder, params[i], at, "");
    }
    LLVMBuildCall2(t->builder, type, kernel, args, count, "");
    LLVMBuildRetVoid(t->builder);
    return enter;
}

/* The constant lanes_kernel. */
static LLVMValueRef make_row(translation *t, LLVMValueRef kernel, const char *name,
                             const tsr_fatbin_kernel *launch, uint32_t wave_lanes) {
    unsigned shared_count = 0;
    LLVMValueRef enter = make_enter(t, kernel), shared = shared_table(t, kernel, &shared_count);
    unsigned parameters = LLVMCountParamTypes(LLVMGlobalGetValueType(kernel));
    const uint32_t numbers[] = {shared_count,         parameters,
                                launch->threads,      launch->programs,
                                launch->shared_bytes, launch->scratch_bytes,
                                wave_lanes,           0};
    LLVMValueRef values[3 + TSR_COUNT(numbers)] = {
        enter, LLVMBuildGlobalString(t->builder, name, ""), shared};
    for (size_t i = 0; i < TSR_COUNT(numbers); i++)
        values[3 + i] = LLVMConstInt(t->i32, numbers[i], false);
    LLVMValueRef row = LLVMConstStructInContext(t->llvm, values, TSR_COUNT(values), false);
    char symbol[512];
    snprintf(symbol, sizeof symbol, LANES_ROW "%s", name);
    LLVMValueRef global = LLVMAddGlobal(t->module, LLVMTypeOf(row), symbol);
    LLVMSetInitializer(global, row);
    return global;
}

/* void NAME(args, begin, end), the interface of a CPU kernel. */
static void make_kernel(translation *t, LLVMValueRef kernel, const char *name,
                        const tsr_fatbin_kernel *launch, uint32_t wave_lanes) {
    LLVMTypeRef nothing = LLVMVoidTypeInContext(t->llvm);
    LLVMTypeRef own[] = {t->pointer, t->i64, t->i64};
    LLVMTypeRef wide[] = {t->pointer, t->pointer, t->i64, t->i64};
    LLVMTypeRef type = LLVMFunctionType(nothing, own, 3, false);
    LLVMTypeRef launch_type = LLVMFunctionType(nothing, wide, 4, false);
    LLVMSetValueName2(kernel, "kernel", strlen("kernel"));
    LLVMSetLinkage(kernel, LLVMInternalLinkage);
    LLVMSetVisibility(kernel, LLVMDefaultVisibility);
    LLVMValueRef function = LLVMAddFunction(t->module, name, type);
    LLVMValueRef row = NULL;
    LLVMBasicBlockRef block = LLVMAppendBasicBlockInContext(t->llvm, function, "");
    LLVMPositionBuilderAtEnd(t->builder, block);
    row = make_row(t, kernel, name, launch, wave_lanes);
    LLVMPositionBuilderAtEnd(t->builder, block);
    LLVMValueRef args[] = {row, LLVMGetParam(function, 0), LLVMGetParam(function, 1),
                           LLVMGetParam(function, 2)};
    LLVMBuildCall2(t->builder, launch_type, function_of(t, "lanes_launch", launch_type), args, 4,
                   "");
    LLVMBuildRetVoid(t->builder);
}

static void set_cpu(translation *t, LLVMValueRef function) {
    static const char name[] = "target-cpu", features[] = "target-features";
    LLVMAttributeIndex at = (LLVMAttributeIndex)LLVMAttributeFunctionIndex;
    LLVMRemoveStringAttributeAtIndex(function, at, features, sizeof features - 1);
    LLVMAddAttributeAtIndex(
        function, at,
        LLVMCreateStringAttribute(t->llvm, name, sizeof name - 1, cpu, sizeof cpu - 1));
    LLVMSetFunctionCallConv(function, C_CALL);
}

static TSR_RESULT translate_module(translation *t, const tsr_program *program,
                                   const tsr_fatbin *launches) {
    const tsr_amd *gpu = tsr_amd_get(launches->images[0].arch);
    if (!gpu) FAIL(t->ctx, TSR_TARGET, "the code is not for a known AMD GPU");
    LLVMSetTarget(t->module, triple);
    LLVMSetModuleDataLayout(t->module, t->layout);
    set_shared(t);
    for (uint32_t i = 0; i < program->kernel_count; i++) {
        LLVMValueRef kernel = LLVMGetNamedFunction(t->module, program->kernels[i]);
        if (!kernel) FAIL(t->ctx, TSR_CORRUPT, "no LLVM IR of '%s'", program->kernels[i]);
        set_cpu(t, kernel);
        TRY(t->ctx, translate_body(t, kernel));
        make_kernel(t, kernel, program->kernels[i], &launches->kernels[i], gpu->wave_lanes);
    }
    return TSR_SUCCESS;
}

static TSR_RESULT open_module(translation *t, const char *ir, size_t size_bytes) {
    char *message = NULL;
    LLVMTargetRef target = NULL;
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    t->llvm = LLVMContextCreate();
    LLVMMemoryBufferRef text = LLVMCreateMemoryBufferWithMemoryRangeCopy(ir, size_bytes, "lanes");
    if (LLVMParseIRInContext(t->llvm, text, &t->module, &message))
        FAIL(t->ctx, TSR_CORRUPT, "the LLVM IR: %s", message);
    if (LLVMGetTargetFromTriple(triple, &target, &message))
        FAIL(t->ctx, TSR_INTERNAL, "LLVM has no target '%s': %s", triple, message);
    t->machine = LLVMCreateTargetMachine(target, triple, cpu, "", LLVMCodeGenLevelLess,
                                         LLVMRelocPIC, LLVMCodeModelSmall);
    t->layout = LLVMCreateTargetDataLayout(t->machine);
    t->builder = LLVMCreateBuilderInContext(t->llvm);
    t->i32 = LLVMInt32TypeInContext(t->llvm);
    t->i64 = LLVMInt64TypeInContext(t->llvm);
    t->pointer = LLVMPointerTypeInContext(t->llvm, 0);
    return TSR_SUCCESS;
}

tsr_result lanes_translate(tsr_ctx *ctx, const char *ir, size_t size_bytes,
                           const tsr_program *program, const tsr_fatbin *launches,
                           const char *path) {
    translation t = {.ctx = ctx};
    char *message = NULL;
    TRY(ctx, open_module(&t, ir, size_bytes));
    TRY(ctx, translate_module(&t, program, launches));
    if (LLVMVerifyModule(t.module, LLVMReturnStatusAction, &message))
        FAIL(ctx, TSR_INTERNAL, "the translated LLVM IR does not verify: %.400s", message);
    if (LLVMTargetMachineEmitToFile(t.machine, t.module, path, LLVMObjectFile, &message))
        FAIL(ctx, TSR_INTERNAL, "'%s': %s", path, message);
    return TSR_SUCCESS;
}
