/* SPDX-License-Identifier: Apache-2.0
 *
 * Code for NVIDIA GPUs, tested without a GPU: the contents of PTX, its acceptance by the assembler,
 * and programs that are not assemblers or refuse. tests/gpu runs the code.
 */
#include "compiler/compile.h"
#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/target.h"
#include "compiler/target/ptxas.h"
#include "compiler/target/target.h"
#include "manifests/fatbin.h"
#include "runtime/base/array.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char kernels[] =
    "module {\n"
    "tile.func @lanes(%x: memref<256xf32>, %y: memref<256xf64>, %l: memref<4xi64>) grid 4 {\n"
    "  %c = arith.constant 0 : index\n"
    "  %t = arith.constant 40 : index\n"
    "  %a = tile.load %x[%c] : memref<256xf32> -> vector<64xf32>\n"
    "  %m = vector.create_mask %t : vector<48xi1>\n"
    "  %b = tile.load %x[%t] mask %m : vector<48xi1> : memref<256xf32> -> vector<48xf32>\n"
    "  %s = vector.extract %a[33] : f32 from vector<64xf32>\n"
    "  %r = vector.shuffle %a, %a [1, 0, 3, 2, 65, 64, 67, 66] : vector<64xf32>, vector<64xf32>\n"
    "  %q = vector.broadcast %s : f32 to vector<48xf32>\n"
    "  %f = math.fma %b, %q, %b : vector<48xf32>\n"
    "  %w = tile.local : memref<64xf32>\n"
    "  tile.store %f, %w[%c] : vector<48xf32>, memref<64xf32>\n"
    "  %g = tile.load %w[%t] : memref<64xf32> -> f32\n"
    "  tile.store %g, %x[%c] : f32, memref<256xf32>\n"
    "  %d = arith.extf %r : vector<8xf32> to vector<8xf64>\n"
    "  tile.store %d, %y[%c] : vector<8xf64>, memref<256xf64>\n"
    "  %p = tile.program_id\n"
    "  %v = tile.load %l[%p] : memref<4xi64> -> i64\n"
    "  %k = tile.check_index %v below 10 of 2 [%p]\n"
    "  tile.return\n"
    "}\n"
    "tile.func @large(%x: memref<40000xf32>) grid 1 {\n"
    "  %c = arith.constant 0 : index\n"
    "  %w = tile.local : memref<20000xf32>\n"
    "  %a = tile.load %x[%c] : memref<40000xf32> -> vector<32xf32>\n"
    "  tile.store %a, %w[%c] : vector<32xf32>, memref<20000xf32>\n"
    "  %b = tile.load %w[%c] : memref<20000xf32> -> f32\n"
    "  tile.store %b, %x[%c] : f32, memref<40000xf32>\n"
    "  tile.return\n"
    "}\n"
    "}\n";

typedef struct fixture {
    tsr_ctx ctx;
    tsr_arena arena;
    tsr_diag_list diags;
    MlirContext mlir;
    MlirModule module;
    const tsr_target *target;
    void *code;
    size_t code_size;
    tsr_fatbin fatbin;
} fixture;

static void begin(fixture *f, const char *target) {
    memset(f, 0, sizeof *f);
    cr_assert(tsr_mlir_context_create(&f->ctx, &f->diags, &f->mlir).code == TSR_OK);
    cr_assert(
        tsr_mlir_parse(&f->ctx, f->mlir, &f->diags, kernels, strlen(kernels), "t.mlir", &f->module)
                .code == TSR_OK,
        "%s", f->ctx.error.text);
    cr_assert(tsr_target_find(&f->ctx, target, &f->target).code == TSR_OK);
    tsr_result result =
        tsr_target_compile(&f->ctx, f->module, f->target, &f->arena, &f->code, &f->code_size);
    cr_assert(result.code == TSR_OK, "%s", f->ctx.error.text);
    cr_assert(tsr_fatbin_decode(&f->ctx, f->code, f->code_size, &f->arena, &f->fatbin).code ==
              TSR_OK);
}

static void end(fixture *f) {
    mlirModuleDestroy(f->module);
    tsr_mlir_context_destroy(f->mlir);
    tsr_diag_finish(&f->diags);
    tsr_arena_finish(&f->arena);
}

static size_t count(const char *text, const char *part) {
    size_t found = 0;
    for (; (text = strstr(text, part)) != NULL; text++) found++;
    return found;
}

static void expect(const char *ptx, const char *part) {
    cr_assert(strstr(ptx, part), "no '%s' in\n%s", part, ptx);
}

Test(nvptx, ptx) {
    static const char *const targets[][2] = {{"cuda:sm_80", ".target sm_80"},
                                             {"cuda:sm_90a", ".target sm_90a"},
                                             {"cuda:sm_100a", ".target sm_100a"}};
    static const uint32_t archs[] = {80, 90, 100};
    for (size_t i = 0; i < 3; i++) {
        fixture f, again;
        begin(&f, targets[i][0]);
        cr_assert(f.fatbin.kernel_count == 2 && f.fatbin.image_count == 1);
        const tsr_fatbin_image *image = &f.fatbin.images[0];
        cr_assert(image->kind == TSR_FATBIN_PTX && image->arch == archs[i] &&
                  image->exactly == (i > 0));
        const char *ptx = image->bytes;
        expect(ptx, targets[i][1]);
        expect(ptx, ".visible .entry lanes(");
        expect(ptx, ".maxntid 128");
        expect(ptx, "fma.rn.f32");
        expect(ptx, "shfl.sync.idx.b32");
        expect(ptx, "bar.warp.sync");
        expect(ptx, "atom.");
        cr_assert(!strstr(ptx, "mad.f32") && !strstr(ptx, ".ftz") && !strstr(ptx, "call"));
        cr_assert(count(ptx, "bar.warp.sync") >= 2, "local memory is exchanged in both kernels");
        /* Buffers that fit are in shared memory, once for each program of a block. */
        const tsr_fatbin_kernel *lanes = &f.fatbin.kernels[0], *large = &f.fatbin.kernels[1];
        cr_assert(lanes->threads == 128 && lanes->programs == 4 && lanes->static_bytes == 4 * 256 &&
                  lanes->scratch_bytes == 0);
        cr_assert(large->programs == 4 && large->static_bytes == 0 &&
                  large->scratch_bytes == 4 * 80000);
        begin(&again, targets[i][0]);
        cr_assert(again.code_size == f.code_size && memcmp(again.code, f.code, f.code_size) == 0);
        end(&again);
        end(&f);
    }
}

static void write_script(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0 && chmod(path, 0755) == 0);
}

static void find(fixture *f, const char *given, const char *path, tsr_ptxas *ptxas, tsr_code code) {
    cr_assert(tsr_ptxas_find(&f->ctx, given, path, "/usr/local/cuda/bin", &f->arena, ptxas).code ==
                  code,
              "%s", f->ctx.error.text);
}

/* If an assembler is installed, it accepts our PTX. */
static bool assemble(const char *target) {
    fixture f;
    tsr_ptxas ptxas;
    begin(&f, target);
    find(&f, NULL, getenv("PATH"), &ptxas, TSR_OK);
    if (!ptxas.path) {
        end(&f);
        return false;
    }
    cr_assert(strstr(ptxas.description, " sha256:"));
    tsr_result result =
        tsr_ptxas_assemble(&f.ctx, &ptxas, f.module, f.target, &f.arena, &f.code, &f.code_size);
    cr_assert(result.code == TSR_OK, "%s", f.ctx.error.text);
    cr_assert(tsr_fatbin_decode(&f.ctx, f.code, f.code_size, &f.arena, &f.fatbin).code == TSR_OK);
    cr_assert(f.fatbin.image_count == 2 && f.fatbin.images[0].kind == TSR_FATBIN_CUBIN &&
              f.fatbin.images[1].kind == TSR_FATBIN_PTX);
    cr_assert(memcmp(f.fatbin.images[0].bytes, "\177ELF", 4) == 0);
    for (uint32_t i = 0; i < 2; i++)
        cr_assert(f.fatbin.kernels[i].registers >= 8 && f.fatbin.kernels[i].registers <= 255 &&
                  f.fatbin.kernels[i].spill_bytes == 0);
    cr_assert(f.fatbin.kernels[0].static_bytes == 1024, "%u", f.fatbin.kernels[0].static_bytes);
    end(&f);
    return true;
}

Test(nvptx, assembled) {
    if (!assemble("cuda:sm_80") || !assemble("cuda:sm_90a") || !assemble("cuda:sm_100a"))
        cr_skip_test("there is no ptxas here");
}

static const char version[] = "#!/bin/sh\n"
                              "[ \"$1\" = --version ] && { echo 'Cuda, release 1.2, V1.2.3'; exit "
                              "0; }\n";
/* The smallest accepted machine code: an ELF header of machine 190. */
#define HEADER "printf '\\177ELF\\2\\1\\1'; head -c 9 /dev/zero; printf '\\2\\0\\276\\0'; "
#define WRITES "{ " HEADER "head -c 44 /dev/zero; } >/proc/self/fd/4\n"
#define LANES                                                                                      \
    "echo \"ptxas info : Compiling entry function 'lanes' for 'sm_90a'\"\n"                        \
    "echo '    0 bytes stack frame, 24 bytes spill stores, 12 bytes spill loads'\n"                \
    "echo 'ptxas info : Used 77 registers, used 0 barriers, 1024 bytes smem'\n"
#define LARGE                                                                                      \
    "echo \"ptxas info : Compiling entry function 'large' for 'sm_90a'\"\n"                        \
    "echo '    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'\n"                  \
    "echo 'ptxas info : Used 9 registers, used 0 barriers'\n"

/* `text`: the beginning of the error, after the path if that is quoted. */
static void assemble_with(fixture *f, const char *path, const char *body, tsr_code code,
                          const char *text) {
    char script[2000];
    tsr_ptxas ptxas;
    void *bytes = f->code;
    size_t size = f->code_size;
    snprintf(script, sizeof script, "%s%s", version, body);
    write_script(path, script);
    find(f, path, NULL, &ptxas, TSR_OK);
    cr_assert(strncmp(ptxas.description, "1.2.3 sha256:", 13) == 0);
    tsr_result result =
        tsr_ptxas_assemble(&f->ctx, &ptxas, f->module, f->target, &f->arena, &bytes, &size);
    const char *got = f->ctx.error.text;
    cr_assert(result.code == code, "%d: %s", result.code, got);
    if (!code) {
        cr_assert(tsr_fatbin_decode(&f->ctx, bytes, size, &f->arena, &f->fatbin).code == TSR_OK);
        return;
    }
    if (*got == '\'' && strncmp(got + 1, path, strlen(path)) == 0) got += strlen(path) + 3;
    cr_assert(strncmp(got, text, strlen(text)) == 0, "%s", got);
}

/* Machine code is refused if the assembler reports this performance loss. */
static void refuse_advice(fixture *f, const char *path, const char *code) {
    char body[1200], text[200];
    snprintf(body, sizeof body,
             LANES LARGE "echo 'ptxas info : (%s) Potential Performance Loss: "
                         "as it was not asked for'\n" WRITES,
             code);
    snprintf(text, sizeof text,
             "ptxas for 'cuda:sm_90a' ended with 0: %s) Potential Performance Loss: as it was not "
             "asked for",
             code);
    assemble_with(f, path, body, TSR_COMPILE, text);
}

static void refuse(fixture *f, const char *path) {
    static const char *const least[] = {"C7508", "C7510", "C7512", "C7518"};
    assemble_with(f, path, "echo 'line 3; error : no such register' >&2; exit 2\n", TSR_COMPILE,
                  "ptxas for 'cuda:sm_90a' ended with 2: error : no such register");
    for (const char *const *code = tsr_ptxas_refusals; *code; code++) refuse_advice(f, path, *code);
    for (size_t i = 0; i < TSR_COUNT(least); i++) refuse_advice(f, path, least[i]);
}

/* Output that does not come from an assembler says nothing about the kernel: the code differs from
 * that of a refusal. */
static void betray(fixture *f, const char *path) {
    static const struct {
        const char *body, *text;
        tsr_code code;
    } rows[] = {
        {"exit 0\n", "wrote 0 bytes that are not an ELF file", TSR_USAGE},
        {LANES LARGE "printf machine >/proc/self/fd/4\n",
         "wrote 7 bytes that are not an ELF file; expected machine code", TSR_USAGE},
        {LANES LARGE "head -c 64 /bin/sh >/proc/self/fd/4\n",
         "wrote an ELF file of class 2 for machine 62; expected class 2, machine 190 (CUDA)",
         TSR_USAGE},
        {LANES LARGE "{ " HEADER "head -c 20 /dev/zero; printf '\\0\\20'; head -c 22 /dev/zero; } "
                     ">/proc/self/fd/4\n",
         "wrote 64 bytes of an ELF file whose sections end at 4096: it is cut off", TSR_USAGE},
        {LANES WRITES,
         "does not print the resources of kernel 'large'; expected registers and spills",
         TSR_USAGE},
        {LARGE "echo \"ptxas info : Compiling entry function 'lanes' for 'sm_90a'\"\n" WRITES,
         "does not print the resources of kernel 'lanes'", TSR_USAGE},
        {LARGE "echo \"ptxas info : Compiling entry function 'lanes' for 'sm_90a'\"\n"
               "echo 'ptxas info : Used 77 registers'\n" WRITES,
         "does not print the resources of kernel 'lanes'", TSR_USAGE},
        {LANES LARGE WRITES "kill -9 $$\n", "was ended by signal 9 (KILL)", TSR_MACHINE},
        {"kill -11 $$\n", "was ended by signal 11 (SEGV)", TSR_MACHINE},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++)
        assemble_with(f, path, rows[i].body, rows[i].code, rows[i].text);
}

Test(nvptx, assemblers) {
    char path[64], folder[] = "/tmp/tessera-ptxas-XXXXXX", search[128];
    fixture f;
    tsr_ptxas ptxas;
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/ptxas", folder);
    snprintf(search, sizeof search, "/nowhere::%s:/bin", folder);
    begin(&f, "cuda:sm_90a");
    find(&f, path, NULL, &ptxas, TSR_USAGE); /* the file does not exist yet */
    write_script(path, "#!/bin/sh\necho 'something else'\n");
    find(&f, path, NULL, &ptxas, TSR_USAGE);
    cr_assert(strstr(f.ctx.error.text, "does not print a version of ptxas"));
    write_script(path, "#!/bin/sh\nkill -15 $$\n");
    find(&f, path, NULL, &ptxas, TSR_MACHINE);
    cr_assert(strstr(f.ctx.error.text, "was ended by signal 15 (TERM)"));
    assemble_with(&f, path, "cat >/dev/null </proc/self/fd/3\n" LANES LARGE WRITES, TSR_OK, NULL);
    cr_assert(f.fatbin.images[0].size_bytes == 64 &&
              memcmp(f.fatbin.images[0].bytes, "\177ELF", 4) == 0);
    cr_assert(f.fatbin.kernels[0].registers == 77 && f.fatbin.kernels[0].spill_bytes == 24 &&
              f.fatbin.kernels[1].registers == 9 && f.fatbin.kernels[1].spill_bytes == 0);
    find(&f, NULL, search, &ptxas, TSR_OK);
    cr_assert_str_eq(ptxas.path, path);
    refuse(&f, path);
    betray(&f, path);
    unlink(path);
    rmdir(folder);
    end(&f);
}

/* The search skips a folder of that name, a file that is not executable, and CUDA's own folder if
 * it is not given. */
Test(nvptx, search) {
    char folder[] = "/tmp/tessera-ptxas-XXXXXX", path[4][64], search[256];
    fixture f = {0};
    tsr_ptxas ptxas;
    cr_assert_not_null(mkdtemp(folder));
    for (int i = 0; i < 3; i++) {
        snprintf(search, sizeof search, "%s/%d", folder, i);
        snprintf(path[i], sizeof path[i], "%s/%d/ptxas", folder, i);
        cr_assert(mkdir(search, 0755) == 0);
    }
    cr_assert(mkdir(path[0], 0755) == 0);
    write_script(path[1], version);
    cr_assert(chmod(path[1], 0644) == 0);
    write_script(path[2], version);
    snprintf(search, sizeof search, "%s/0:%s/1:%s/2", folder, folder, folder);
    find(&f, NULL, search, &ptxas, TSR_OK);
    cr_assert_str_eq(ptxas.path, path[2]);
    cr_assert(tsr_ptxas_find(&f.ctx, NULL, NULL, search, &f.arena, &ptxas).code == TSR_OK);
    cr_assert_str_eq(ptxas.path, path[2], "behind the others");
    *strrchr(search, ':') = 0;
    cr_assert(tsr_ptxas_find(&f.ctx, NULL, search, NULL, &f.arena, &ptxas).code == TSR_OK);
    cr_assert_null(ptxas.path);
    rmdir(path[0]);
    unlink(path[1]);
    unlink(path[2]);
    for (int i = 0; i < 3; i++) {
        *strrchr(path[i], '/') = 0;
        rmdir(path[i]);
    }
    rmdir(folder);
    tsr_arena_finish(&f.arena);
}

static char heard[200];
static void hear(void *user, tsr_log_level level, const char *text) {
    (void)user;
    if (level == TSR_LOG_NOTICE) snprintf(heard, sizeof heard, "%s", text);
}

/* Without an assembler the compiler reports that, and still makes the bundle. */
Test(nvptx, alone) {
    static const char source[] =
        "func.func @f(%x: tensor<4xf32> {tessera.name = \"x\"}) -> (tensor<4xf32> {tessera.name = "
        "\"y\"}) attributes {tessera.entry = \"infer\"} {\n"
        "  %0 = tessera.tanh %x : tensor<4xf32>\n  return %0 : tensor<4xf32>\n}\n";
    static const char *const targets[] = {"cuda:sm_90a", "cpu:x86-64-v2"};
    char folder[] = "/tmp/tessera-ptxas-XXXXXX", in[64], out[64];
    tsr_ctx ctx = {.log = hear, .log_level = TSR_LOG_NOTICE};
    tsr_compile_options options = {.size_bytes = sizeof options,
                                   .source_path = in,
                                   .output_path = out,
                                   .targets = targets,
                                   .target_count = 1};
    cr_assert_not_null(mkdtemp(folder));
    snprintf(in, sizeof in, "%s/in.mlir", folder);
    snprintf(out, sizeof out, "%s/out.tsb", folder);
    write_script(in, source);
    options.tool_path = folder;
    cr_assert(tsr_compile(&ctx, &options, NULL).code == TSR_OK, "%s", ctx.error.text);
    cr_assert_str_eq(heard, "no ptxas was found: the bundle contains only PTX for NVIDIA GPUs, "
                            "which the driver translates at each start");
    cr_assert(unlink(out) == 0);
    /* An assembler that would not be used. */
    options.targets = targets + 1;
    options.ptxas = "/nowhere/ptxas";
    cr_assert(tsr_compile(&ctx, &options, NULL).code == TSR_USAGE);
    cr_assert_str_eq(ctx.error.text, "'/nowhere/ptxas' assembles code for NVIDIA GPUs; expected a "
                                     "target cuda:…, got 'cpu:x86-64-v2'");
    unlink(in);
    rmdir(folder);
}
