/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/compiler/tile/harness.h"

#include "compiler/ir/targets/target.h"
#include "compiler/tile/tile.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool host_has(const tsr_target *target) {
    if (strcmp(target->name, "cpu:x86-64-v2") == 0) return __builtin_cpu_supports("x86-64-v2");
    if (strcmp(target->name, "cpu:x86-64-v3") == 0) return __builtin_cpu_supports("x86-64-v3");
    if (strcmp(target->name, "cpu:x86-64-v4") == 0) return __builtin_cpu_supports("x86-64-v4");
    if (strcmp(target->name, "cpu:x86-64-v4-bf16") == 0)
        return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512bf16") &&
               __builtin_cpu_supports("avx512vnni");
    if (target->arch) return false; /* a GPU */
    cr_assert(false, "the test does not know target %s", target->name);
    return false;
}

/* The file stays open: dlopen identifies a library by its path and would return the one loaded
 * before. */
static void load_library(built *b) {
    char path[64];
    b->fd = memfd_create("kernels", MFD_CLOEXEC);
    cr_assert(b->fd >= 0 && write(b->fd, b->elf, b->elf_size) == (ssize_t)b->elf_size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", b->fd);
    b->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert(b->library != NULL, "%s", dlerror());
}

static void print_diag(void *user, const tsr_diag *diag) {
    (void)user;
    fprintf(stderr, "%s:%u: %s\n", diag->file, diag->line, diag->text);
}

static void append_text(MlirStringRef part, void *user) {
    tsr_buffer_append(user, part.data, part.length);
}

/* The code for a CPU with dot products of bf16 (has_dot) differs from that for the preceding target
 * only in code for bf16 and tile.dot_bytes: without them, equal Tile IR becomes equal code, which
 * is not compiled and run again. test_map checks that it is equal. */
static bool is_repeated(const fixture *f, const built *b) {
    if (f->all_targets || !b->target->has_dot || !f->built_count) return false;
    tsr_buffer texts[2] = {{0}, {0}};
    mlirBlockPrint(mlirModuleGetBody(b[-1].tile), append_text, &texts[0]); /* no target name */
    mlirBlockPrint(mlirModuleGetBody(b->tile), append_text, &texts[1]);
    cr_assert(!texts[0].failed && !texts[1].failed);
    bool same = texts[0].size_bytes == texts[1].size_bytes &&
                memcmp(texts[0].bytes, texts[1].bytes, texts[0].size_bytes) == 0 &&
                !memmem(texts[0].bytes, texts[0].size_bytes, "bf16", 4) &&
                !memmem(texts[0].bytes, texts[0].size_bytes, "dot_bytes", 9);
    tsr_buffer_finish(&texts[0]);
    tsr_buffer_finish(&texts[1]);
    return same;
}

static bool fits(const tsr_target *target, const tsr_target *lowered) {
    return host_has(target) && (!lowered || target->has_fma);
}

static bool has_stronger(size_t index, const tsr_target *lowered) {
    for (size_t i = index + 1; i < tsr_target_count(); i++)
        if (fits(tsr_target_get(i), lowered)) return true;
    return false;
}

static bool is_refused(const fixture *f, tsr_result result) {
    return result.code == TSR_COMPILE && f->diags.last &&
           f->diags.last->number == TSR_DIAG_SCHEDULE;
}

/* `lowered`: the target that Tile IR is made for; NULL: each target its own. */
static void open_for(fixture *f, const char *attributes, const char *text,
                     const tsr_target *lowered) {
    MlirModule module;
    f->diags.on_diag = print_diag;
    tsr_result result = tsr_mlir_context_create(&f->ctx, &f->diags, &f->mlir);
    cr_assert(result.code == TSR_OK, "%s", f->ctx.error.text);
    size_t size = strlen(text) + strlen(attributes) + 32;
    char *source = tsr_arena_alloc(&f->arena, size, 1, 1);
    snprintf(source, size, "module %s {\n%s\n}\n", attributes, text);
    result =
        tsr_mlir_parse(&f->ctx, f->mlir, &f->diags, source, strlen(source), "test.mlir", &module);
    cr_assert(result.code == TSR_OK, "%s\n%s", f->ctx.error.text, text);
    for (size_t i = 0, found = 0; i < tsr_target_count(); i++) {
        built *b = &f->built[f->built_count];
        b->target = tsr_target_get(i);
        if (!fits(b->target, lowered)) continue;
        if (f->left_out >> found++ & 1 && has_stronger(i, lowered)) continue;
        result = tsr_tile_lower(&f->ctx, module, lowered ? lowered : b->target, &b->tile);
        if (is_refused(f, result)) continue; /* sizes that another target has */
        cr_assert(result.code == TSR_OK, "%s\n%s", f->ctx.error.text, text);
        if (is_repeated(f, b)) {
            mlirModuleDestroy(b->tile);
            continue;
        }
        result = tsr_target_compile(&f->ctx, b->tile, b->target, &f->arena, &b->elf, &b->elf_size);
        cr_assert(result.code == TSR_OK, "%s\n%s", f->ctx.error.text, text);
        load_library(b);
        f->built_count++;
    }
    cr_assert(f->built_count > 0);
    mlirModuleDestroy(module);
}

void fixture_open(fixture *f, const char *text) { open_for(f, "", text, NULL); }

void fixture_open_dots(fixture *f, const char *text) {
    const tsr_target *target = NULL;
    tsr_result result = tsr_target_find(&f->ctx, "cpu:x86-64-v4-bf16", &target);
    cr_assert(result.code == TSR_OK && target->has_dot);
    open_for(f, "attributes {tessera.numerics = \"native\"}", text, target);
}

void fixture_close(fixture *f) {
    for (size_t i = 0; i < f->built_count; i++) {
        dlclose(f->built[i].library);
        close(f->built[i].fd);
        mlirModuleDestroy(f->built[i].tile);
    }
    tsr_mlir_context_destroy(f->mlir);
    tsr_diag_finish(&f->diags);
    tsr_arena_finish(&f->arena);
    *f = (fixture){0};
}

void memory_open(memory *m, size_t size, guard where) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), mapped = (size + page - 1) / page * page;
    m->size = size;
    m->map_size = mapped + 2 * page;
    m->map = mmap(NULL, m->map_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(m->map != MAP_FAILED);
    char *first = (char *)m->map + page;
    cr_assert(mapped == 0 || mprotect(first, mapped, PROT_READ | PROT_WRITE) == 0);
    m->data = where == GUARD_END ? first + mapped - size : first;
}

void memory_close(memory *m) { munmap(m->map, m->map_size); }

tsr_kernel_fn kernel_find(const built *b, const char *name) {
    tsr_kernel_fn kernel = NULL;
    void *symbol = dlsym(b->library, name);
    cr_assert(symbol != NULL, "%s", name);
    memcpy(&kernel, &symbol, sizeof kernel);
    return kernel;
}

int64_t kernel_grid(const built *b, const char *name) {
    MlirOperation op = tsr_module_find(b->tile, name);
    int64_t grid = 0;
    cr_assert(!mlirOperationIsNull(op) && tsr_op_i64(op, "grid", &grid) && grid > 0);
    return grid;
}

tsr_fault kernel_run(const built *b, const char *name, const argument *arguments, size_t count,
                     split how, guard where, void *const *out_bytes) {
    memory memories[BUFFERS_MAX];
    void *pointers[BUFFERS_MAX];
    tsr_fault fault = {0};
    tsr_kernel_fn kernel = kernel_find(b, name);
    cr_assert(count <= BUFFERS_MAX);
    for (size_t i = 0; i < count; i++) {
        memory_open(&memories[i], arguments[i].size, where);
        pointers[i] = memories[i].data;
        if (arguments[i].bytes)
            memcpy(pointers[i], arguments[i].bytes, arguments[i].size);
        else
            memset(pointers[i], 0xAA, arguments[i].size);
    }
    tsr_kernel_args args = {pointers, &fault};
    int64_t grid = kernel_grid(b, name);
    if (how == SPLIT_WHOLE) kernel(&args, 0, grid);
    for (int64_t p = 0; how == SPLIT_SINGLE && p < grid; p++) kernel(&args, p, p + 1);
    for (int64_t p = grid; how == SPLIT_REVERSED && p > 0;) {
        int64_t size = p > 3 ? 3 : p;
        kernel(&args, p - size, p);
        p -= size;
    }
    size_t output = 0;
    for (size_t i = 0; i < count; i++) {
        if (!arguments[i].bytes) memcpy(out_bytes[output++], pointers[i], arguments[i].size);
        memory_close(&memories[i]);
    }
    return fault;
}

bool same_output(const void *a, const void *b, size_t size, const tsr_dtype *nans) {
    if (memcmp(a, b, size) == 0) return true;
    if (!nans) return false;
    size_t width = tsr_dtype_size(*nans);
    for (size_t i = 0; i < size / width; i++) {
        bool both = isnan(tsr_dtype_read(*nans, a, i)) && isnan(tsr_dtype_read(*nans, b, i));
        const unsigned char *x = a, *y = b;
        if (!both && memcmp(x + i * width, y + i * width, width) != 0) return false;
    }
    return true;
}

void kernel_test(fixture *f, const char *name, const argument *arguments, size_t count,
                 void *const *out_bytes, check_fn check, void *user) {
    void *first[BUFFERS_MAX] = {0}, *fused[BUFFERS_MAX] = {0};
    size_t sizes[BUFFERS_MAX], outputs = 0;
    bool have_fused = false;
    for (size_t i = 0; i < count; i++) {
        if (arguments[i].bytes) continue;
        sizes[outputs] = arguments[i].size;
        first[outputs] = malloc(arguments[i].size + 1);
        fused[outputs++] = malloc(arguments[i].size + 1);
    }
    for (size_t t = 0; t < f->built_count; t++) {
        const built *b = &f->built[t];
        for (int variant = 0; variant < 3; variant++) {
            guard where = variant == 1 ? GUARD_START : GUARD_END;
            kernel_run(b, name, arguments, count, (split)variant, where, out_bytes);
            for (size_t o = 0; o < outputs; o++) {
                if (variant == 0) memcpy(first[o], out_bytes[o], sizes[o]);
                cr_assert(memcmp(first[o], out_bytes[o], sizes[o]) == 0,
                          "%s on %s: output %zu depends on the split of the grid", name,
                          b->target->name, o);
            }
        }
        if (check) check(b->target, out_bytes, user);
        for (size_t o = 0; b->target->has_fma && o < outputs; o++) {
            if (!have_fused) memcpy(fused[o], out_bytes[o], sizes[o]);
            cr_assert(same_output(fused[o], out_bytes[o], sizes[o], f->nans),
                      "%s: output %zu of %s differs from the weaker target's", name, o,
                      b->target->name);
        }
        have_fused = have_fused || b->target->has_fma;
    }
    for (size_t o = 0; o < outputs; o++) {
        free(first[o]);
        free(fused[o]);
    }
}

/* splitmix64: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", 2014 */
uint64_t random_u64(random_state *r) {
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double random_uniform(random_state *r, double low, double high) {
    return low + (high - low) * ((double)(random_u64(r) >> 11) * 0x1p-53);
}

void random_fill(random_state *r, tsr_dtype dtype, void *data, size_t count, double low,
                 double high) {
    for (size_t i = 0; i < count; i++) {
        double x = random_uniform(r, low, high);
        if (dtype == TSR_DTYPE_I1) x = (double)(random_u64(r) & 1);
        if (dtype == TSR_DTYPE_UI8) x = fabs(x);
        if (!tsr_dtype_is_float(dtype)) x = trunc(x);
        tsr_dtype_write(dtype, x, data, i);
    }
}

double element_get(tsr_dtype dtype, const void *data, size_t index) {
    return tsr_dtype_read(dtype, data, index);
}
