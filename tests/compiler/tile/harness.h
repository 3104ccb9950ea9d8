/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles textual Schedule IR for each x86 level this CPU has, loads the shared objects, runs
 * kernels on guarded buffers and compares. Failures are Criterion assertions.
 */
#ifndef TSR_TESTS_TILE_HARNESS_H
#define TSR_TESTS_TILE_HARNESS_H

#include "compiler/ir/mlir.h"
#include "compiler/ir/targets/target.h"
#include "compiler/target/target.h"
#include "runtime/base/kernel.h"

enum { BUFFERS_MAX = 16, TARGETS_MAX = 8 };

typedef struct built {
    const tsr_target *target;
    void *library; /* dlopen */
    int fd;        /* descriptor of its file */
    void *elf;
    size_t elf_size;
    MlirModule tile;
} built;

typedef struct fixture {
    tsr_ctx ctx;
    tsr_arena arena;
    tsr_diag_list diags;
    MlirContext mlir;
    size_t built_count;
    built built[TARGETS_MAX]; /* one per target that this CPU can run, weakest first */
    const tsr_dtype *nans;    /* outputs of this type may have other NaNs per target; NULL: none */
    bool all_targets;         /* also targets whose code equals another's: see is_repeated */
    unsigned left_out;        /* bit i: leave out target i if a stronger one follows */
} fixture;

/* `text`: the body of a module. Zero-initialise the fixture first. */
void fixture_open(fixture *f, const char *text);
/* The same with the kernels for dot products of bf16 under numerics "native", for every CPU with
 * FMA. */
void fixture_open_dots(fixture *f, const char *text);
void fixture_close(fixture *f);

typedef enum guard { GUARD_END, GUARD_START } guard; /* the end that touches an inaccessible page */

typedef struct memory {
    void *data;
    size_t size;
    void *map;
    size_t map_size;
} memory;
void memory_open(memory *m, size_t size, guard where);
void memory_close(memory *m);

/* One argument of a kernel: inputs have bytes, outputs are filled with 0xAA before the run. */
typedef struct argument {
    const void *bytes; /* NULL: output */
    size_t size;
} argument;

typedef enum split { SPLIT_WHOLE, SPLIT_SINGLE, SPLIT_REVERSED } split;

tsr_kernel_fn kernel_find(const built *b, const char *name);
int64_t kernel_grid(const built *b, const char *name);
/* Runs the kernel of one target. out_bytes[i] receives output i's bytes; returns the fault. */
tsr_fault kernel_run(const built *b, const char *name, const argument *arguments, size_t count,
                     split how, guard where, void *const *out_bytes);

/* True if two targets gave the same `size` bytes; `nans`: the type of the elements if all NaNs
 * count as equal; else NULL. */
bool same_output(const void *a, const void *b, size_t size, const tsr_dtype *nans);

/* Runs a kernel for every target, split and guard. Asserts that the bits never depend on split or
 * guard, nor on the target among those with FMA (except for NaNs if the fixture allows it: their
 * sign and payload are unspecified). out_bytes receives the strongest target's outputs; `check`, if
 * not NULL, is called with each target's. */
typedef void (*check_fn)(const tsr_target *target, void *const *out_bytes, void *user);
void kernel_test(fixture *f, const char *name, const argument *arguments, size_t count,
                 void *const *out_bytes, check_fn check, void *user);

/* Deterministic random numbers. */
typedef struct random_state {
    uint64_t state;
} random_state;
uint64_t random_u64(random_state *r);
double random_uniform(random_state *r, double low, double high);
void random_fill(random_state *r, tsr_dtype dtype, void *data, size_t count, double low,
                 double high);
double element_get(tsr_dtype dtype, const void *data, size_t index);

#endif
