/* SPDX-License-Identifier: Apache-2.0
 *
 * Code generation in a child process: Tile IR -> LLVM IR -> passes -> object or text -> the last
 * step of the target's family.
 */
#include "compiler/target/machine.h"

#include "compiler/ir/targets/target.h"
#include "compiler/process/child.h"
#include "compiler/target/llvm/warp.h"
#include "compiler/tile/attributes.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

#include <stdio.h>
#include <stdlib.h>

enum { TIMEOUT_S = 300, FULL_VECTOR_BYTES = 64 /* 32 registers */ };
static const uint64_t memory_max = UINT64_C(4) << 30;

/* The loops and vectors already have their final form: passes only clean up. */
static const char passes[] =
    "function(early-cse<memssa>,instcombine<no-verify-fixpoint>,loop-mssa(licm),"
    "early-cse<memssa>,simplifycfg)";

/* Pointers to their address spaces; the arguments that kernels do not need are left out. */
static const char amdgpu_passes[] =
    "function(infer-address-spaces,early-cse<memssa>),amdgpu-attributor";

typedef struct job {
    MlirModule module;
    const tsr_target *target;
    tsr_target_text text; /* 0: a shared object */
} job;

typedef struct machine {
    tsr_emit emit;
    LLVMTargetMachineRef target;
    char diagnostic[512]; /* the first error LLVM reported, or "" */
} machine;

/* Code of a module, in one part or several. */
typedef struct code_parts {
    LLVMMemoryBufferRef code[2];
    size_t count;
} code_parts;

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *user) {
    machine *m = user;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || m->diagnostic[0]) return;
    char *text = LLVMGetDiagInfoDescription(info);
    snprintf(m->diagnostic, sizeof m->diagnostic, "%s", text);
    LLVMDisposeMessage(text);
}

/* LLVM orders instructions so that few values are live at once. For dependent chains of
 * multiply-adds with 16 registers, that costs up to a third; a spill costs little. The option
 * applies to the whole process, for code that is generated from now on. */
static void order_for_latency(void) {
    static const char *const options[] = {"tessera", "-misched-regpressure=false"};
    LLVMParseCommandLineOptions(2, options, NULL);
}

static void initialize_x86(void) {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
}

static void initialize_nvptx(void) {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
}

static void initialize_amdgpu(void) {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
}

static void (*const initialize[])(void) = {[TSR_FAMILY_CPU] = initialize_x86,
                                           [TSR_FAMILY_CUDA] = initialize_nvptx,
                                           [TSR_FAMILY_HIP] = initialize_amdgpu};

static tsr_result open_machine(tsr_ctx *ctx, const tsr_target *target, machine *m) {
    char *message = NULL;
    LLVMTargetRef found = NULL;
    initialize[target->family]();
    if (LLVMGetTargetFromTriple(target->triple, &found, &message))
        FAIL(ctx, TSR_INTERNAL, "LLVM has no target '%s': %s", target->triple, message);
    m->target = LLVMCreateTargetMachine(found, target->triple, target->cpu, target->features,
                                        LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelSmall);
    m->emit.ctx = ctx;
    m->emit.target = target;
    m->emit.llvm = LLVMContextCreate();
    m->emit.module = LLVMModuleCreateWithNameInContext("tessera", m->emit.llvm);
    m->emit.builder = LLVMCreateBuilderInContext(m->emit.llvm);
    LLVMContextSetDiagnosticHandler(m->emit.llvm, on_diagnostic, m);
    LLVMSetTarget(m->emit.module, target->triple);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(m->target);
    LLVMSetModuleDataLayout(m->emit.module, layout);
    LLVMDisposeTargetData(layout);
    if (target->family == TSR_FAMILY_HIP) tsr_amdgpu_set_version(m->emit.module, target);
    return TSR_SUCCESS;
}

static tsr_result optimize(tsr_ctx *ctx, machine *m) {
    char *message = NULL;
    if (LLVMVerifyModule(m->emit.module, LLVMReturnStatusAction, &message))
        FAIL(ctx, TSR_INTERNAL, "LLVM IR does not verify: %.400s", message);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    /* Basic blocks keep counters in memory unintentionally. */
    LLVMErrorRef error = NULL;
    if (m->emit.target->warp_lanes)
        error = LLVMRunPasses(m->emit.module, "function(sroa)", m->target, options);
    /* Lanes compute one number at a time. LLVM 22 crashes on some vectors of one or two. */
    if (!error && m->emit.target->family == TSR_FAMILY_HIP)
        error = LLVMRunPasses(m->emit.module, "function(scalarizer)", m->target, options);
    if (!error) error = LLVMRunPasses(m->emit.module, passes, m->target, options);
    if (!error && m->emit.target->family == TSR_FAMILY_HIP)
        error = LLVMRunPasses(m->emit.module, amdgpu_passes, m->target, options);
    LLVMDisposePassBuilderOptions(options);
    if (error) FAIL(ctx, TSR_INTERNAL, "LLVM's passes: %s", LLVMGetErrorMessage(error));
    tsr_emit_split_masked(&m->emit);
    return TSR_SUCCESS;
}

static tsr_result generate(tsr_ctx *ctx, machine *m, LLVMCodeGenFileType kind,
                           LLVMMemoryBufferRef *out_code) {
    char *message = NULL;
    if (LLVMTargetMachineEmitToMemoryBuffer(m->target, m->emit.module, kind, &message, out_code))
        FAIL(ctx, TSR_INTERNAL, "LLVM's code generation: %s", message);
    if (m->diagnostic[0]) FAIL(ctx, TSR_INTERNAL, "LLVM: %s", m->diagnostic);
    return TSR_SUCCESS;
}

/* True for long chains of multiply-adds, the same for each vector. */
static bool computes_functions(MlirBlock block) {
    static const bool computes[TSR_OP_COUNT] = {
        [TSR_MATH_EXP] = true,   [TSR_MATH_EXPM1] = true, [TSR_MATH_LOG] = true,
        [TSR_MATH_LOG1P] = true, [TSR_MATH_TANH] = true,  [TSR_MATH_ERF] = true,
        [TSR_MATH_POWF] = true,  [TSR_TILE_GELU] = true,  [TSR_MATH_SIN] = true,
        [TSR_MATH_COS] = true,   [TSR_MATH_TAN] = true,   [TSR_MATH_ASIN] = true,
        [TSR_MATH_ACOS] = true,  [TSR_MATH_ATAN] = true};
    TSR_FOR_EACH_OP(op, block) {
        tsr_op id = tsr_op_of(op);
        if (computes[id] || (id == TSR_SCF_FOR && computes_functions(tsr_op_body(op)))) return true;
    }
    return false;
}

/* First generates the kernels that keep LLVM's order, including all whose tiles fill the registers;
 * then, ordered for latency, the kernels that compute functions. */
static tsr_result generate_cpu(tsr_ctx *ctx, machine *m, MlirModule kernels,
                               LLVMCodeGenFileType kind, code_parts *out_parts) {
    LLVMModuleRef modules[] = {LLVMCloneModule(m->emit.module), m->emit.module};
    size_t counts[2] = {0};
    bool few_registers = m->emit.target->vector_bytes < FULL_VECTOR_BYTES;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(kernels)) {
        if (!tsr_op_is(op, TSR_TILE_FUNC)) continue;
        bool waits =
            few_registers && !tsr_op_has(op, TSR_TILE_NAME) && computes_functions(tsr_op_body(op));
        const char *name = tsr_op_string(op, "sym_name");
        LLVMDeleteFunction(LLVMGetNamedFunction(modules[!waits], name));
        counts[waits]++;
    }
    out_parts->count = 0;
    for (int waits = 0; waits < 2; waits++) {
        if (!counts[waits] && (waits || counts[true])) continue; /* an empty module: one part */
        if (waits) order_for_latency();
        m->emit.module = modules[waits];
        TRY(ctx, generate(ctx, m, kind, &out_parts->code[out_parts->count++]));
    }
    return TSR_SUCCESS;
}

static size_t count_kernels(MlirModule module) {
    size_t count = 0;
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module)) count += tsr_op_is(op, TSR_TILE_FUNC);
    return count;
}

static const char **list_names(MlirModule module, uint32_t count) {
    const char **names = calloc(count + 1, sizeof *names);
    size_t at = 0;
    TSR_ASSERT(names); /* this is the child process: it may abort */
    TSR_FOR_EACH_OP(op, mlirModuleGetBody(module))
    if (tsr_op_is(op, TSR_TILE_FUNC)) names[at++] = tsr_op_symbol(op);
    return names;
}

/* The last step of a GPU's family: what a bundle holds. */
static tsr_result pack(tsr_ctx *ctx, const job *j, tsr_fatbin_kernel *launches, uint32_t count,
                       LLVMMemoryBufferRef code, tsr_buffer *out) {
    if (j->target->family == TSR_FAMILY_CUDA)
        return tsr_nvptx_pack(ctx, j->target, launches, count, code, out);
    return tsr_amdgpu_pack(ctx, j->target, launches, list_names(j->module, count), count, code,
                           out);
}

/* Runs in the child, which ends after this, so no memory is released. */
static tsr_result run_job(tsr_ctx *ctx, void *user, char note[static TSR_CHILD_NOTE_MAX],
                          tsr_buffer *out) {
    const job *j = user;
    machine m = {0};
    bool is_cpu = j->target->family == TSR_FAMILY_CPU;
    uint32_t kernel_count = (uint32_t)count_kernels(j->module);
    tsr_fatbin_kernel *launches = calloc(kernel_count + 1, sizeof *launches);
    if (!launches) FAIL(ctx, TSR_MEMORY, "no memory for %u kernels", kernel_count);
    TRY(ctx, open_machine(ctx, j->target, &m));
    TRY(ctx, tsr_emit_module(&m.emit, j->module, note, TSR_CHILD_NOTE_MAX, launches));
    TRY(ctx, optimize(ctx, &m));
    if (j->text == TSR_TARGET_LLVM) {
        tsr_buffer_text(out, LLVMPrintModuleToString(m.emit.module));
        return TSR_SUCCESS;
    }
    bool text = j->text || j->target->family == TSR_FAMILY_CUDA; /* PTX is text */
    LLVMCodeGenFileType kind = text ? LLVMAssemblyFile : LLVMObjectFile;
    code_parts parts = {.count = 1};
    if (is_cpu)
        TRY(ctx, generate_cpu(ctx, &m, j->module, kind, &parts));
    else
        TRY(ctx, generate(ctx, &m, kind, &parts.code[0]));
    for (size_t i = 0; j->text && i < parts.count; i++)
        tsr_buffer_append(out, LLVMGetBufferStart(parts.code[i]), LLVMGetBufferSize(parts.code[i]));
    if (j->text) return TSR_SUCCESS;
    if (is_cpu) return tsr_cpu_link(ctx, parts.code, parts.count, out);
    return pack(ctx, j, launches, kernel_count, parts.code[0], out);
}

static tsr_result run_in_child(tsr_ctx *ctx, job *j, tsr_arena *arena, void **out_bytes,
                               size_t *out_size_bytes) {
    char what[128];
    snprintf(what, sizeof what, "code generation for '%s'", j->target->name);
    tsr_child_options options = {
        .what = what, .memory_bytes = memory_max, .timeout_ns = UINT64_C(1000000000) * TIMEOUT_S};
    return tsr_child_run(ctx, &options, run_job, j, arena, out_bytes, out_size_bytes);
}

tsr_result tsr_target_compile(tsr_ctx *ctx, MlirModule tile_module, const tsr_target *target,
                              tsr_arena *arena, void **out_elf, size_t *out_size_bytes) {
    job j = {tile_module, target, 0};
    return run_in_child(ctx, &j, arena, out_elf, out_size_bytes);
}

tsr_result tsr_target_dump(tsr_ctx *ctx, MlirModule tile_module, const tsr_target *target,
                           tsr_target_text kind, tsr_arena *arena, char **out_text) {
    job j = {tile_module, target, kind};
    void *bytes = NULL;
    size_t size = 0;
    TRY(ctx, run_in_child(ctx, &j, arena, &bytes, &size));
    *out_text = bytes;
    return TSR_SUCCESS;
}
