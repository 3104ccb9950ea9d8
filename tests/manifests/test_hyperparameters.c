/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs of training that are hyper-parameters: their JSON, the feature that a reader must know,
 * and what a config cannot say.
 */
#include "manifests/config.h"
#include "runtime/base/array.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tsr_config_hyperparameter lr = {"lr", 0.01, 0, 1};
static const tsr_hyperparameter listed[] = {{"eps", "1e-08", false}, {"lr", "0.01", false}};

typedef struct example {
    tsr_config config;
    tsr_config_entry entry;
    tsr_config_port inputs[3];
} example;

/* A training entry with the step, and "lr" in both types. */
static void make(example *out) {
    *out = (example){.inputs = {{.name = "step", .dtype = TSR_DTYPE_I64, .source = TSR_PORT_STEP},
                                {.name = "lr",
                                 .dtype = TSR_DTYPE_F64,
                                 .source = TSR_PORT_HYPERPARAMETER,
                                 .hyperparameter = &lr},
                                {.name = "lr_",
                                 .dtype = TSR_DTYPE_F32,
                                 .source = TSR_PORT_HYPERPARAMETER,
                                 .hyperparameter = &lr}}};
    out->entry = (tsr_config_entry){
        .name = "train", .kind = TSR_ENTRY_TRAIN, .input_count = 3, .inputs = out->inputs};
    out->config = (tsr_config){.version_major = 1,
                               .version_minor = 1,
                               .name = "m",
                               .producer = "test",
                               .numerics = "portable.2",
                               .virtual_ranks = 1,
                               .operations = tsr_hash("ops", 3),
                               .identity = {{{0}}, TSR_COUNT(listed), listed},
                               .entry_count = 1,
                               .entries = &out->entry};
    out->config.identity.program = tsr_config_program_digest(&out->config);
}

static tsr_code decode(tsr_ctx *ctx, const char *json, tsr_arena *arena, tsr_config *out) {
    return tsr_config_decode(ctx, json, strlen(json), arena, out).code;
}

Test(hyperparameters, are_a_required_feature) {
    static const char feature[] = "\"hyperparameter-inputs\"";
    tsr_arena arena = {0};
    tsr_ctx ctx = {0};
    tsr_config back;
    example e;
    char *json = NULL;
    size_t size;
    make(&e);
    cr_assert_eq(tsr_config_encode(&ctx, &e.config, &arena, &json, &size).code, TSR_OK, "%s",
                 ctx.error.text);
    char *at = strstr(json, feature);
    cr_assert(at && strncmp(at - 12, "\"required\":[", 12) == 0, "%s", json);
    cr_assert(strstr(json, "{\"name\":\"lr_\",\"dtype\":\"f32\",\"shape\":[],"
                           "\"source\":\"hyperparameter\",\"hyperparameter\":\"lr\","
                           "\"value\":\"0x1.47ae147ae147bp-7\",\"least\":\"0x0p+0\","
                           "\"most\":\"0x1p+0\"}"),
              "%s", json);
    cr_assert_eq(decode(&ctx, json, &arena, &back), TSR_OK, "%s", ctx.error.text);
    const tsr_config_port *port = &back.entries[0].inputs[2];
    cr_assert(tsr_port_is_hyperparameter(port, "lr") && !tsr_port_is_hyperparameter(port, "eps"));
    cr_assert(tsr_port_is_filled(port->source));
    cr_assert(port->hyperparameter->value == 0.01 && port->hyperparameter->most == 1);
    memmove(at, at + sizeof feature - 1, strlen(at + sizeof feature - 1) + 1);
    cr_assert_eq(decode(&ctx, json, &arena, &back), TSR_CORRUPT, "a source without its feature");
    cr_assert(strstr(ctx.error.text, "expected argument, data, step or seed, got 'hyperparameter'"),
              "%s", ctx.error.text);
    tsr_arena_finish(&arena);
}

/* Without such inputs nothing is written that an older reader does not know. */
Test(hyperparameters, are_not_required_where_there_are_none) {
    tsr_arena arena = {0};
    tsr_ctx ctx = {0};
    example e;
    char *json = NULL;
    size_t size;
    make(&e);
    e.entry.input_count = 1;
    cr_assert_eq(tsr_config_encode(&ctx, &e.config, &arena, &json, &size).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert(strstr(json, "\"required\":[],"), "%s", json);
    tsr_arena_finish(&arena);
}

Test(hyperparameters, that_cannot_be) {
    static const struct {
        tsr_config_hyperparameter of;
        tsr_dtype dtype;
        tsr_entry_kind kind;
        const char *text;
    } rows[] = {
        {{"lr", 0.01, 0, 1}, TSR_DTYPE_F64, TSR_ENTRY_TRAIN, NULL},
        {{"other", 7, 0, 9}, TSR_DTYPE_F32, TSR_ENTRY_TRAIN, NULL},
        {{"lr", 0.01, 0, 1}, TSR_DTYPE_F64, TSR_ENTRY_EVAL, "in an entry of kind eval"},
        {{"lr", 0.01, 0, 1}, TSR_DTYPE_I64, TSR_ENTRY_TRAIN, "expected f32 or f64"},
        {{"", 0.01, 0, 1}, TSR_DTYPE_F64, TSR_ENTRY_TRAIN, "expected a name"},
        {{"lr", 0.01, 0.1, 1}, TSR_DTYPE_F64, TSR_ENTRY_TRAIN, "got 0.01"},
        {{"lr", 0.01, 0, INFINITY}, TSR_DTYPE_F64, TSR_ENTRY_TRAIN, "that f64 can hold"},
        {{"lr", NAN, 0, 1}, TSR_DTYPE_F64, TSR_ENTRY_TRAIN, "got nan"},
        {{"other", 1, 0, 1e40}, TSR_DTYPE_F32, TSR_ENTRY_TRAIN, "that f32 can hold"},
        {{"other", 1e39, 0, 1e40}, TSR_DTYPE_F32, TSR_ENTRY_TRAIN, "that f32 can hold"},
        {{"lr", 0.02, 0, 1}, TSR_DTYPE_F64, TSR_ENTRY_TRAIN, "expected the value 0.01 of"},
    };
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        tsr_ctx ctx = {0};
        example e;
        make(&e);
        e.inputs[2].hyperparameter = &rows[i].of;
        e.inputs[2].dtype = rows[i].dtype;
        e.entry.kind = rows[i].kind;
        tsr_code code = tsr_config_verify(&ctx, &e.config, TSR_CORRUPT).code;
        cr_assert_eq(code, rows[i].text ? TSR_CORRUPT : TSR_OK, "row %zu: %s", i, ctx.error.text);
        if (rows[i].text) cr_assert(strstr(ctx.error.text, rows[i].text), "%s", ctx.error.text);
    }
}
