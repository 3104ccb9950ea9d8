/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with one entry `f`, compiled from text by tessera-aot and run by the executor as
 * tessera-run does: the cost of launches is measured, the copies of inputs and outputs of a call
 * are not. Errors end the benchmark with a message.
 */
#ifndef TSR_BENCH_PROGRAM_H
#define TSR_BENCH_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

typedef struct bench_program bench_program;

typedef struct bench_options {
    const char *aot;      /* path of tessera-aot */
    const char *folder;   /* folder for bundles; must exist */
    const char *cpu;      /* "x86-64-v4"; NULL: the highest level of this CPU */
    const char *numerics; /* "native"; NULL: portable */
    const char *dim;      /* "N=1..64", the sizes of its dim; NULL: none is open */
    unsigned threads;
} bench_options;

/* Parameters are initialised with seed 1. */
bench_program *bench_program_open(const bench_options *options, const char *mlir);
void bench_program_close(bench_program *program);
float *bench_program_input(bench_program *program, size_t index);
const float *bench_program_output(bench_program *program, size_t index);
/* Returns the parameter's memory, which is read-only. */
const float *bench_program_param(bench_program *program, const char *name);
void bench_program_run(void *program); /* runs one call */
/* Sets the open dim of the next calls. */
void bench_program_set_dim(bench_program *program, uint64_t size);
/* Fills every input of f32 or bf16 with random numbers in [-1, 1). */
void bench_program_fill(bench_program *program, uint64_t seed);
size_t bench_program_workspace(const bench_program *program); /* in bytes */
size_t bench_program_launches(const bench_program *program);  /* launches of one call */
double bench_program_compile_seconds(const bench_program *program);

#endif
