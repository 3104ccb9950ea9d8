/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/kernels/program.h"

#include "bench/kernels/measure.h"
#include "loader/model.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct bench_program {
    tsr_ctx ctx;
    tsr_model *model;
    double compile_seconds;
};

extern char **environ;

static void fail(const char *what, const char *text) {
    fprintf(stderr, "%s: %s\n", what, text);
    exit(5);
}

static void must(bench_program *program, tsr_result result) {
    if (result.code) fail("tessera", program->ctx.error.text);
}

static void compile(const bench_options *options, const char *source, const char *bundle) {
    char target[80] = "--target=cpu:x86-64-v4,cpu:x86-64-v3";
    const char *numerics = options->numerics ? options->numerics : "portable";
    if (strcmp(numerics, "native") == 0) strcat(target, ",cpu:x86-64-v4-bf16");
    if (options->cpu) snprintf(target, sizeof target, "--target=cpu:%s", options->cpu);
    char *argv[] = {(char *)options->aot,
                    "build",
                    (char *)source,
                    "-o",
                    (char *)bundle,
                    target,
                    "--numerics",
                    (char *)numerics,
                    options->dim ? "--dim" : NULL,
                    (char *)options->dim,
                    NULL};
    pid_t child = 0;
    int status = 0;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", 1, 0);
    if (posix_spawn(&child, options->aot, &actions, NULL, argv, environ))
        fail(options->aot, "cannot be run");
    posix_spawn_file_actions_destroy(&actions);
    if (waitpid(child, &status, 0) != child || status != 0) fail(options->aot, "failed");
}

bench_program *bench_program_open(const bench_options *options, const char *mlir) {
    char source[512], bundle[512];
    bench_program *program = calloc(1, sizeof *program);
    if (!program) fail("tessera", "no memory");
    snprintf(source, sizeof source, "%s/f.mlir", options->folder);
    snprintf(bundle, sizeof bundle, "%s/f.tsb", options->folder);
    FILE *file = fopen(source, "w");
    if (!file || fputs(mlir, file) < 0 || fclose(file)) fail(source, "cannot be written");
    double start = measure_wall();
    compile(options, source, bundle);
    program->compile_seconds = measure_wall() - start;
    tsr_model_options model = {
        .size_bytes = sizeof model, .cpu = options->cpu, .threads = options->threads};
    must(program, tsr_model_open(&program->ctx, bundle, &model, &program->model));
    must(program, tsr_model_initialize(&program->ctx, program->model, 1));
    unlink(source);
    unlink(bundle);
    return program;
}

void bench_program_close(bench_program *program) {
    tsr_model_close(&program->ctx, program->model);
    free(program);
}

float *bench_program_input(bench_program *program, size_t index) {
    return tsr_executor_get_input(program->model->executor, 0, index);
}

const float *bench_program_output(bench_program *program, size_t index) {
    return tsr_executor_get_output(program->model->executor, 0, index);
}

const float *bench_program_param(bench_program *program, const char *name) {
    size_t count = 0;
    const tsr_tensor *state = tsr_model_get_state(program->model, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(state[i].name, name) == 0) return state[i].data;
    fail(name, "no such parameter");
    return NULL;
}

void bench_program_run(void *user) {
    bench_program *program = user;
    must(program, tsr_executor_run(&program->ctx, program->model->executor, 0, 1));
}

void bench_program_set_dim(bench_program *program, uint64_t size) {
    tsr_executor_set_dim(program->model->executor, 0, size);
}

double bench_program_compile_seconds(const bench_program *program) {
    return program->compile_seconds;
}

void bench_program_fill(bench_program *program, uint64_t seed) {
    const tsr_config_entry *entry = &program->model->config.entries[0];
    for (size_t i = 0; i < entry->input_count; i++) {
        uint64_t count = 0;
        const tsr_config_port *port = &entry->inputs[i];
        bool narrow = port->dtype == TSR_DTYPE_BF16;
        if ((port->dtype != TSR_DTYPE_F32 && !narrow) || !tsr_shape_count(&port->shape, &count))
            continue;
        float *values = measure_floats(&seed, (size_t)count);
        if (narrow) /* keep the upper halves, packed */
            for (size_t k = 0; k < (size_t)count; k++)
                memcpy((char *)values + 2 * k, (const char *)(values + k) + 2, 2);
        memcpy(bench_program_input(program, i), values,
               (size_t)count * tsr_dtype_size(port->dtype));
        free(values);
    }
}

size_t bench_program_workspace(const bench_program *program) {
    return (size_t)program->model->program.entries[0].workspace_bytes;
}

size_t bench_program_launches(const bench_program *program) {
    const tsr_program_entry *entry = &program->model->program.entries[0];
    size_t count = 0;
    for (size_t i = 0; i < entry->command_count; i++)
        count += entry->commands[i].opcode == TSR_OP_LAUNCH;
    return count;
}
