/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of targets; allowed and forbidden contents of a shared object; failures of code
 * generation.
 */
#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/target.h"
#include "compiler/target/target.h"
#include "runtime/cpu.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char kernels[] =
    "module {\n"
    "tile.func @good(%x: memref<4096xf32>, %y: memref<4096xf32>, %l: memref<4xi64>) grid 4 {\n"
    "  %c = arith.constant 0 : index\n"
    "  %h = arith.constant 4096 : index\n"
    "  %s = arith.constant 16 : index\n"
    "  scf.for %i = %c to %h step %s {\n"
    "    %a = tile.load %x[%i] : memref<4096xf32> -> vector<16xf32>\n"
    "    %e = math.exp %a : vector<16xf32>\n"
    "    %t = math.tanh %e : vector<16xf32>\n"
    "    %f = math.fma %t, %a, %e : vector<16xf32>\n"
    "    %n = arith.fptosi %f : vector<16xf32> to vector<16xi64>\n"
    "    %q = arith.sitofp %n : vector<16xi64> to vector<16xf32>\n"
    "    tile.store %q, %y[%i] : vector<16xf32>, memref<4096xf32>\n"
    "  }\n"
    "  %p = tile.program_id\n"
    "  %v = tile.load %l[%p] : memref<4xi64> -> i64\n"
    "  %k = tile.check_index %v below 10 of 2 [%p]\n"
    "  tile.return\n"
    "}\n"
    "}\n";

typedef struct fixture {
    tsr_ctx ctx;
    tsr_arena arena;
    tsr_diag_list diags;
    MlirContext mlir;
    MlirModule module;
} fixture;

static void open_module(fixture *f, const char *text) {
    cr_assert(tsr_mlir_context_create(&f->ctx, &f->diags, &f->mlir).code == TSR_OK);
    cr_assert(tsr_mlir_parse(&f->ctx, f->mlir, &f->diags, text, strlen(text), "t.mlir", &f->module)
                      .code == TSR_OK,
              "%s", f->ctx.error.text);
}

static void close_module(fixture *f) {
    mlirModuleDestroy(f->module);
    tsr_mlir_context_destroy(f->mlir);
    tsr_diag_finish(&f->diags);
    tsr_arena_finish(&f->arena);
}

Test(target, find) {
    tsr_ctx ctx = {0};
    const tsr_target *target = NULL;
    for (size_t i = 0; i < tsr_target_count(); i++) {
        cr_assert(tsr_target_find(&ctx, tsr_target_get(i)->name, &target).code == TSR_OK);
        cr_assert(target == tsr_target_get(i));
    }
    cr_assert(tsr_target_find(&ctx, "cpu:z80", &target).code == TSR_USAGE);
    cr_assert_str_eq(ctx.error.text,
                     "unknown target 'cpu:z80'; there are cpu:x86-64-v2, "
                     "cpu:x86-64-v3, cpu:x86-64-v4, cpu:x86-64-v4-bf16, "
                     "cuda:sm_80, cuda:sm_90a, cuda:sm_100a, hip:gfx9-4-generic, "
                     "hip:gfx11-generic, hip:gfx12-generic, hip:gfx90a, hip:gfx942, hip:gfx950, "
                     "hip:gfx1100, hip:gfx1201");
}

/* Walks the dynamic section and the program headers: nothing imported, stack not executable. */
static void check_elf(const unsigned char *elf, size_t size) {
    Elf64_Ehdr header;
    cr_assert(size > sizeof header && memcmp(elf, ELFMAG, SELFMAG) == 0);
    memcpy(&header, elf, sizeof header);
    cr_assert(header.e_type == ET_DYN && header.e_machine == EM_X86_64);
    bool stack = false;
    size_t symbols = 0, strings = 0, hash = 0;
    for (size_t i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr program;
        memcpy(&program, elf + header.e_phoff + i * sizeof program, sizeof program);
        cr_assert((program.p_flags & (PF_W | PF_X)) != (PF_W | PF_X));
        if (program.p_type == PT_GNU_STACK) stack = !(program.p_flags & PF_X);
        cr_assert(program.p_type != PT_INTERP);
        if (program.p_type != PT_DYNAMIC) continue;
        for (size_t at = 0; at < program.p_filesz; at += sizeof(Elf64_Dyn)) {
            Elf64_Dyn entry;
            memcpy(&entry, elf + program.p_offset + at, sizeof entry);
            cr_assert(entry.d_tag != DT_NEEDED && entry.d_tag != DT_TEXTREL &&
                      entry.d_tag != DT_INIT && entry.d_tag != DT_RUNPATH);
            if (entry.d_tag == DT_SYMTAB) symbols = entry.d_un.d_ptr;
            if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
            if (entry.d_tag == DT_GNU_HASH) hash = entry.d_un.d_ptr;
        }
    }
    /* The symbols extend to the string table, which LLD puts after them; both are in the first
     * segment, so their addresses are offsets in the file. */
    cr_assert(stack && symbols && hash && strings > symbols && strings < size);
    size_t exported = 0, end = hash > symbols && hash < strings ? hash : strings;
    for (size_t at = symbols + sizeof(Elf64_Sym); at + sizeof(Elf64_Sym) <= end;
         at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        memcpy(&symbol, elf + at, sizeof symbol);
        cr_assert(symbol.st_shndx != SHN_UNDEF, "imports %s", elf + strings + symbol.st_name);
        exported += strcmp((const char *)elf + strings + symbol.st_name, "good") == 0;
    }
    cr_assert(exported == 1);
}

static bool contains(const void *bytes, size_t size, const char *text) {
    return memmem(bytes, size, text, strlen(text)) != NULL;
}

static size_t cpu_count(void) {
    size_t count = 0;
    for (size_t i = 0; i < tsr_target_count(); i++) count += tsr_target_get(i)->arch == 0;
    return count;
}

Test(target, shared_object) {
    char here[4096], host[256];
    fixture f = {0};
    open_module(&f, kernels);
    cr_assert(getcwd(here, sizeof here) && gethostname(host, sizeof host) == 0);
    for (size_t i = 0; i < cpu_count(); i++) {
        void *elf = NULL, *again = NULL;
        size_t size = 0, again_size = 0;
        tsr_result result =
            tsr_target_compile(&f.ctx, f.module, tsr_target_get(i), &f.arena, &elf, &size);
        cr_assert(result.code == TSR_OK, "%s", f.ctx.error.text);
        check_elf(elf, size);
        cr_assert(!contains(elf, size, here) && !contains(elf, size, "/home/") &&
                  !contains(elf, size, ".mlir"));
        cr_assert(strlen(host) < 4 || !contains(elf, size, host));
        cr_assert(chdir("/") == 0);
        result =
            tsr_target_compile(&f.ctx, f.module, tsr_target_get(i), &f.arena, &again, &again_size);
        cr_assert(result.code == TSR_OK && again_size == size && memcmp(elf, again, size) == 0);
        cr_assert(chdir(here) == 0);
    }
    close_module(&f);
}

Test(target, dump) {
    char *llvm = NULL, *code = NULL;
    fixture f = {0};
    open_module(&f, kernels);
    for (size_t i = 0; i < cpu_count(); i++) {
        const tsr_target *target = tsr_target_get(i);
        cr_assert(
            tsr_target_dump(&f.ctx, f.module, target, TSR_TARGET_LLVM, &f.arena, &llvm).code ==
            TSR_OK);
        cr_assert(tsr_target_dump(&f.ctx, f.module, target, TSR_TARGET_ASM, &f.arena, &code).code ==
                  TSR_OK);
        cr_assert(strstr(llvm, "define void @good(ptr") && strstr(code, "good:"));
        cr_assert((strstr(llvm, "llvm.fma") != NULL) == target->has_fma);
        cr_assert((strstr(code, "vfmadd") != NULL) == target->has_fma);
        cr_assert((strstr(code, "%zmm") != NULL) == (target->vector_bytes == 64));
        cr_assert(!strstr(code, "callq\tfma") && !strstr(llvm, "fast"));
    }
    close_module(&f);
}

/* A GPU program does not know which others run concurrently. */
Test(target, program_end) {
    static const char text[] = "module {\n"
                               "tile.func @ends(%x: memref<64xf32>) grid 4 {\n"
                               "  %0 = tile.program_end\n"
                               "  tile.return\n"
                               "}\n"
                               "}\n";
    char *code = NULL;
    const tsr_target *gpu = NULL;
    fixture f = {0};
    open_module(&f, text);
    cr_assert(
        !tsr_target_dump(&f.ctx, f.module, tsr_target_get(0), TSR_TARGET_LLVM, &f.arena, &code)
             .code);
    cr_assert(!tsr_target_find(&f.ctx, "cuda:sm_90a", &gpu).code);
    tsr_result result = tsr_target_dump(&f.ctx, f.module, gpu, TSR_TARGET_LLVM, &f.arena, &code);
    cr_assert(result.code == TSR_COMPILE &&
                  strstr(f.ctx.error.text, "tile.program_end is for CPUs"),
              "%s", f.ctx.error.text);
    close_module(&f);
}

/* The addresses of GPU buffers are not used. */
Test(target, until_aligned) {
    static const char text[] = "module {\n"
                               "tile.func @begins(%x: memref<64xf32>) grid 4 {\n"
                               "  %p = tile.program_id\n"
                               "  %0 = tile.until_aligned %x[%p] : memref<64xf32>\n"
                               "  tile.return\n"
                               "}\n"
                               "}\n";
    char *code = NULL;
    const tsr_target *gpu = NULL;
    fixture f = {0};
    open_module(&f, text);
    cr_assert(!tsr_target_find(&f.ctx, "cuda:sm_90a", &gpu).code);
    tsr_result result = tsr_target_dump(&f.ctx, f.module, gpu, TSR_TARGET_LLVM, &f.arena, &code);
    cr_assert(result.code == TSR_COMPILE &&
                  strstr(f.ctx.error.text, "tile.until_aligned is for CPUs"),
              "%s", f.ctx.error.text);
    close_module(&f);
}

/* One instruction if the CPU has it; it loads the pairs of all lanes from memory. The CPU's
 * rounding to bf16 is never used, as it flushes denormal numbers. */
Test(target, dot) {
    static const char text[] =
        "module {\n"
        "tile.func @dot(%x: memref<64xbf16>, %y: memref<32xf32>, %z: memref<16xbf16>) grid 1 {\n"
        "  %0 = arith.constant 0 : index\n"
        "  %a = tile.load %x[%0] : memref<64xbf16> -> vector<2xbf16>\n"
        "  %b = tile.load %x[%0] : memref<64xbf16> -> vector<32xbf16>\n"
        "  %s = tile.load %y[%0] : memref<32xf32> -> vector<16xf32>\n"
        "  %d = tile.dot %a, %b, %s : vector<2xbf16>, vector<32xbf16>, vector<16xf32>\n"
        "  %n = arith.truncf %d : vector<16xf32> to vector<16xbf16>\n"
        "  tile.store %n, %z[%0] : vector<16xbf16>, memref<16xbf16>\n"
        "  tile.return\n"
        "}\n"
        "}\n";
    char *code = NULL;
    fixture f = {0};
    open_module(&f, text);
    for (size_t i = 0; i < cpu_count(); i++) {
        const tsr_target *target = tsr_target_get(i);
        tsr_result result =
            tsr_target_dump(&f.ctx, f.module, target, TSR_TARGET_ASM, &f.arena, &code);
        cr_assert(result.code == TSR_OK, "%s", f.ctx.error.text);
        cr_assert((strstr(code, "vdpbf16ps") != NULL) == target->has_dot, "%s", code);
        cr_assert((strstr(code, "){1to16}, %zmm") != NULL) == target->has_dot, "%s", code);
        cr_assert((strstr(code, "vfmadd") != NULL) == (target->has_fma && !target->has_dot));
        cr_assert(!strstr(code, "vcvtne"), "%s", code);
    }
    const tsr_target *gpu = NULL;
    cr_assert(!tsr_target_find(&f.ctx, "cuda:sm_90a", &gpu).code);
    tsr_result result = tsr_target_dump(&f.ctx, f.module, gpu, TSR_TARGET_LLVM, &f.arena, &code);
    cr_assert(result.code == TSR_COMPILE && strstr(f.ctx.error.text, "tile.dot is for CPUs"), "%s",
              f.ctx.error.text);
    close_module(&f);
}

/* MLIR stores one element of a splat constant. */
Test(target, constant_of_equal_elements) {
    static const char text[] =
        "module {\n"
        "tile.func @fill(%x: memref<4096xf32>, %y: memref<4096xi64>) grid 4096 {\n"
        "  %f = tile.constant dense<1.5> : tensor<4096xf32> : memref<4096xf32>\n"
        "  %i = tile.constant dense<-7> : tensor<4096xi64> : memref<4096xi64>\n"
        "  %p = tile.program_id\n"
        "  %a = tile.load %f[%p] : memref<4096xf32> -> f32\n"
        "  %b = tile.load %i[%p] : memref<4096xi64> -> i64\n"
        "  tile.store %a, %x[%p] : f32, memref<4096xf32>\n"
        "  tile.store %b, %y[%p] : i64, memref<4096xi64>\n"
        "  tile.return\n"
        "}\n"
        "}\n";
    enum { COUNT = 4096 };
    static const char *const names[] = {"fill"};
    static float x[COUNT];
    static int64_t y[COUNT];
    fixture f = {0};
    void *elf = NULL;
    size_t size = 0;
    tsr_kernel_fn fill = NULL;
    tsr_code_object *object = NULL;
    open_module(&f, text);
    tsr_result result =
        tsr_target_compile(&f.ctx, f.module, tsr_target_get(0), &f.arena, &elf, &size);
    if (!result.code) result = tsr_code_object_load(&f.ctx, elf, size, names, 1, &fill, &object);
    cr_assert(result.code == TSR_OK, "%s", f.ctx.error.text);
    void *buffers[] = {x, y};
    tsr_fault fault = {0};
    fill(&(tsr_kernel_args){buffers, &fault}, 0, COUNT);
    for (int i = 0; i < COUNT; i++)
        cr_assert(x[i] == 1.5f && y[i] == -7, "element %d: %g, %" PRId64, i, (double)x[i], y[i]);
    tsr_code_object_unload(object);
    close_module(&f);
}

Test(target, unknown_op) {
    static const char text[] = "module {\n"
                               "tile.func @odd(%x: memref<4xf32>) grid 1 {\n"
                               "  %c = arith.constant 0 : index\n"
                               "  %a = tile.load %x[%c] : memref<4xf32> -> f32\n"
                               "  %s = math.cbrt %a : f32\n"
                               "  tile.store %s, %x[%c] : f32, memref<4xf32>\n"
                               "  tile.return\n"
                               "}\n"
                               "}\n";
    fixture f = {0};
    void *elf = NULL;
    size_t size = 0;
    open_module(&f, text);
    tsr_result result =
        tsr_target_compile(&f.ctx, f.module, tsr_target_get(1), &f.arena, &elf, &size);
    cr_assert(result.code == TSR_INTERNAL && !elf);
    cr_assert_str_eq(f.ctx.error.text, "code generation for 'cpu:x86-64-v3': kernel 'odd': "
                                       "math.cbrt has no machine code");
    close_module(&f);
}
