/* SPDX-License-Identifier: Apache-2.0 */
#include "manifests/config.h"
#include "runtime/base/array.h"
#include "runtime/base/buffer.h"
#include "tests/base/random.h"
#include "tests/base/sweep.h"
#include "tests/manifests/random_manifests.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The config of a small perceptron, as the compiler writes it. */
static const char example[] =
    "{\"formatVersion\":\"1.0\",\"required\":[],\"optional\":[],\"name\":\"digits\","
    "\"producer\":\"tessera 0.1.0\",\"numerics\":\"portable\",\"virtualRanks\":1,\"tensors\":["
    "{\"name\":\"w\",\"role\":\"param\",\"dtype\":\"f32\",\"shape\":[64,10],"
    "\"init\":{\"kind\":\"uniform\",\"a\":\"-0x1.8p-2\",\"b\":\"0x1.8p-2\",\"stream\":305419896}},"
    "{\"name\":\"w.adam_m\",\"role\":\"state\",\"of\":\"w\",\"kind\":\"adam_m\",\"dtype\":\"f32\","
    "\"shape\":[64,10],\"init\":{\"kind\":\"constant\",\"a\":\"0x0p+0\"}},"
    "{\"name\":\"z\",\"role\":\"constant\",\"dtype\":\"i32\",\"shape\":[],\"init\":{\"kind\":"
    "\"data\"}}],"
    "\"entries\":["
    "{\"name\":\"predict\",\"kind\":\"infer\",\"batch\":64,\"rowsIndependent\":true,"
    "\"inputs\":[{\"name\":\"x\",\"dtype\":\"ui8\",\"shape\":[64,64],\"source\":\"argument\"}],"
    "\"outputs\":[{\"name\":\"y\",\"dtype\":\"f32\",\"shape\":[64,10]}]},"
    "{\"name\":\"train\",\"kind\":\"train\",\"batch\":64,\"rowsIndependent\":false,"
    "\"inputs\":[{\"name\":\"images\",\"dtype\":\"ui8\",\"shape\":[64,64],\"source\":\"data\"},"
    "{\"name\":\"step\",\"dtype\":\"i64\",\"shape\":[],\"source\":\"step\"}],"
    "\"outputs\":[{\"name\":\"loss\",\"dtype\":\"f32\",\"shape\":[]}]}]}";

/* Decodes a copy of exactly this size, so that a sanitizer detects reads past its end. */
static tsr_result decode(tsr_ctx *ctx, const char *json, size_t size, tsr_arena *arena,
                         tsr_config *config) {
    char *copy = malloc(size ? size : 1);
    memcpy(copy, json, size);
    tsr_result result = tsr_config_decode(ctx, copy, size, arena, config);
    free(copy);
    return result;
}

static tsr_config decode_example(tsr_arena *arena) {
    tsr_ctx ctx = {0};
    tsr_config config = {0};
    cr_assert_eq(decode(&ctx, example, sizeof example - 1, arena, &config).code, TSR_OK, "%s",
                 ctx.error.text);
    return config;
}

Test(config, the_example_means_what_it_says) {
    tsr_arena arena = {0};
    tsr_ctx ctx = {0};
    tsr_config config = decode_example(&arena);
    cr_assert_eq(config.version_major, 1);
    cr_assert_eq(config.version_minor, 0);
    cr_assert_str_eq(config.name, "digits");
    cr_assert_str_eq(config.producer, "tessera 0.1.0");
    cr_assert_eq(config.virtual_ranks, 1);
    cr_assert_eq(config.tensor_count, 3);
    const tsr_config_tensor *w = tsr_config_find_tensor(&config, "w");
    cr_assert_eq(w->role, TSR_ROLE_PARAM);
    cr_assert_null(w->of);
    cr_assert_eq(w->init, TSR_INIT_UNIFORM);
    cr_assert_eq(w->init_a, -0.375);
    cr_assert_eq(w->init_b, 0.375);
    cr_assert_eq(w->init_stream, 0x12345678);
    cr_assert(w->dtype == TSR_DTYPE_F32 && w->shape.rank == 2 && w->shape.dims[1] == 10);
    const tsr_config_tensor *m = tsr_config_find_tensor(&config, "w.adam_m");
    cr_assert_str_eq(m->of, "w");
    cr_assert_str_eq(m->kind, "adam_m");
    cr_assert_null(tsr_config_find_tensor(&config, "w."));
    cr_assert_null(tsr_config_find_entry(&config, "eval"));
    const tsr_config_entry *train = tsr_config_find_entry(&config, "train");
    cr_assert_eq(train->kind, TSR_ENTRY_TRAIN);
    cr_assert_eq(train->batch, 64);
    cr_assert_eq(train->input_count, 2);
    cr_assert_eq(train->inputs[1].source, TSR_PORT_STEP);
    cr_assert_eq(train->outputs[0].shape.rank, 0);
    cr_assert(tsr_config_find_entry(&config, "predict")->rows_independent);
    char *json;
    size_t size;
    cr_assert_eq(tsr_config_encode(&ctx, &config, &arena, &json, &size).code, TSR_OK);
    cr_assert_eq(size, sizeof example - 1);
    cr_assert_str_eq(json, example);
    tsr_arena_finish(&arena);
}

static void expect_equal_tensors(const tsr_config *a, const tsr_config *b) {
    cr_assert_eq(a->tensor_count, b->tensor_count);
    for (size_t i = 0; i < a->tensor_count; i++) {
        const tsr_config_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        cr_assert_str_eq(x->name, y->name);
        cr_assert(x->role == y->role && x->dtype == y->dtype && x->init == y->init);
        cr_assert(tsr_shape_equal(&x->shape, &y->shape));
        cr_assert_eq(!x->of, !y->of);
        if (x->of) cr_assert(strcmp(x->of, y->of) == 0 && strcmp(x->kind, y->kind) == 0);
        cr_assert_eq(memcmp(&x->init_a, &y->init_a, sizeof x->init_a), 0, "bit for bit");
        cr_assert_eq(memcmp(&x->init_b, &y->init_b, sizeof x->init_b), 0);
        cr_assert_eq(x->init_stream, y->init_stream);
    }
}

static void expect_equal_ports(const tsr_config_port *a, const tsr_config_port *b, size_t count) {
    for (size_t i = 0; i < count; i++) {
        cr_assert_str_eq(a[i].name, b[i].name);
        cr_assert(a[i].dtype == b[i].dtype && a[i].source == b[i].source);
        cr_assert_eq(a[i].watched, b[i].watched);
        cr_assert(tsr_shape_equal(&a[i].shape, &b[i].shape));
    }
}

static void expect_equal_entries(const tsr_config *a, const tsr_config *b) {
    cr_assert_eq(a->entry_count, b->entry_count);
    for (size_t i = 0; i < a->entry_count; i++) {
        const tsr_config_entry *x = &a->entries[i], *y = &b->entries[i];
        cr_assert_str_eq(x->name, y->name);
        cr_assert(x->kind == y->kind && x->rows_independent == y->rows_independent);
        cr_assert(x->batch == y->batch && x->input_count == y->input_count);
        cr_assert_eq(x->output_count, y->output_count);
        expect_equal_ports(x->inputs, y->inputs, x->input_count);
        expect_equal_ports(x->outputs, y->outputs, x->output_count);
    }
}

static void expect_equal_programs(const tsr_config *a, const tsr_config *b) {
    tsr_identity_cursor at = {0};
    tsr_hyperparameter_change change;
    cr_assert_eq(b->version_minor, tsr_identity_is_known(&a->identity));
    cr_assert(tsr_digest_equal(&a->operations, &b->operations));
    cr_assert(tsr_digest_equal(&a->identity.program, &b->identity.program));
    cr_assert_not(tsr_identity_next_change(&a->identity, &b->identity, &at, &change));
}

Test(config, random_configs_survive) {
    for (uint64_t seed = 0; seed < 300; seed++) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        tsr_config config = random_config(seed, (uint32_t)(seed % 40), &arena), again = {0};
        char *json, *json_again;
        size_t size, size_again;
        cr_assert_eq(tsr_config_encode(&ctx, &config, &arena, &json, &size).code, TSR_OK,
                     "seed %" PRIu64 ": %s", seed, ctx.error.text);
        cr_assert_eq(decode(&ctx, json, size, &arena, &again).code, TSR_OK, "seed %" PRIu64 ": %s",
                     seed, ctx.error.text);
        cr_assert_str_eq(config.name, again.name);
        cr_assert_eq(config.virtual_ranks, again.virtual_ranks);
        expect_equal_programs(&config, &again);
        expect_equal_tensors(&config, &again);
        expect_equal_entries(&config, &again);
        cr_assert_eq(tsr_config_encode(&ctx, &again, &arena, &json_again, &size_again).code,
                     TSR_OK);
        cr_assert_eq(size, size_again);
        cr_assert_str_eq(json, json_again);
        tsr_arena_finish(&arena);
    }
}

Test(config, unused_fields_are_not_written) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_config config = decode_example(&arena);
    char *json;
    size_t size;
    config.tensors[1].init_b = NAN; /* a constant uses only init_a */
    config.tensors[1].init_stream = 305419896;
    config.tensors[2].init_a = INFINITY; /* data uses neither */
    cr_assert_eq(tsr_config_encode(&ctx, &config, &arena, &json, &size).code, TSR_OK);
    cr_assert_str_eq(json, example);
    tsr_arena_finish(&arena);
}

/* ---- bytes that must be refused ---- */

Test(config, infinite_outputs_and_effects_are_optional_features) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    char *json = NULL;
    size_t size = 0;
    tsr_config config = decode_example(&arena), again;
    config.entries[0].outputs[0].may_be_infinite = true;
    config.entries[1].states_effects = true;
    config.entries[1].effects = TSR_EFFECT_IO | TSR_EFFECT_COLLECTIVE;
    cr_assert_eq(tsr_config_encode(&ctx, &config, &arena, &json, &size).code, TSR_OK);
    cr_assert_not_null(strstr(json, "\"optional\":[\"effects\",\"infinite-outputs\"]"));
    cr_assert_eq(decode(&ctx, json, size, &arena, &again).code, TSR_OK, "%s", ctx.error.text);
    cr_assert(again.entries[0].outputs[0].may_be_infinite);
    cr_assert_not(again.entries[1].outputs[0].may_be_infinite);
    cr_assert(!again.entries[0].states_effects && again.entries[1].states_effects);
    cr_assert_eq(again.entries[1].effects, config.entries[1].effects);
    char *word = strstr(json, "io\",\"collective");
    *word ^= 1;
    cr_assert_eq(decode(&ctx, json, size, &arena, &again).code, TSR_CORRUPT);
    *word ^= 1;
    char *name = strstr(strstr(json, "\"infinite\":[\""), "[\"") + 2;
    *name ^= 1;
    cr_assert_eq(decode(&ctx, json, size, &arena, &again).code, TSR_CORRUPT);
    cr_assert_not_null(strstr(ctx.error.text, "infinite: expected names of outputs"));
    tsr_arena_finish(&arena);
}

Test(config, every_truncation_is_refused) {
    tsr_arena arena = {0};
    tsr_config config;
    for (size_t size = 0; size < sizeof example - 1; size++) {
        tsr_ctx ctx = {0};
        cr_assert_eq(decode(&ctx, example, size, &arena, &config).code, TSR_CORRUPT, "%zu", size);
        cr_assert(strncmp(ctx.error.text, "config: ", 8) == 0, "%s", ctx.error.text);
    }
    tsr_ctx ctx = {0};
    cr_assert_eq(decode(&ctx, example, sizeof example, &arena, &config).code, TSR_CORRUPT,
                 "a NUL behind it is a byte too many");
    tsr_arena_finish(&arena);
}

/* A flipped bit gives another valid config in its canonical spelling, or an error. */
static int check_flips(const char *json, size_t size) {
    char *flipped = malloc(size);
    int accepted = 0;
    for (size_t bit = 0; bit < size * 8; bit += SWEEP_STEP(5)) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        tsr_config config = {0};
        memcpy(flipped, json, size);
        flipped[bit / 8] ^= (char)(1 << bit % 8);
        tsr_code code = decode(&ctx, flipped, size, &arena, &config).code;
        cr_assert(code == TSR_OK || code == TSR_CORRUPT || code == TSR_VERSION, "%zu", bit);
        cr_assert(code == TSR_OK || ctx.error.text[0], "%zu", bit);
        if (code == TSR_OK) {
            char *again;
            size_t size_again;
            accepted++;
            /* A later minor version can be read, but is not written. */
            if (config.version_minor <= 1) {
                cr_assert_eq(tsr_config_encode(&ctx, &config, &arena, &again, &size_again).code,
                             TSR_OK, "%s", ctx.error.text);
                cr_assert_eq(size, size_again);
                cr_assert_arr_eq(again, flipped, size);
            }
        }
        tsr_arena_finish(&arena);
    }
    free(flipped);
    return accepted;
}

Test(config, every_bit_flip_is_refused_or_valid, .timeout = 120) {
    int accepted = check_flips(example, sizeof example - 1);
    cr_assert(accepted > 0 && accepted < 2000, "%d", accepted); /* letters of names, digits */
    for (uint64_t seed = 1000; seed < 1006; seed++) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        tsr_config config = random_config(seed, 4, &arena);
        char *json;
        size_t size;
        cr_assert_eq(tsr_config_encode(&ctx, &config, &arena, &json, &size).code, TSR_OK);
        check_flips(json, size);
        tsr_arena_finish(&arena);
    }
}

/* One edit of the example. */
typedef struct edit {
    const char *from, *to;
    tsr_code code;
    const char *message; /* NULL: accepted */
} edit;

static void check_edit(const edit *e) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_config config = {0};
    tsr_buffer text = {0};
    const char *at = strstr(example, e->from);
    cr_assert_not_null(at, "%s", e->from);
    tsr_buffer_append(&text, example, (size_t)(at - example));
    tsr_buffer_text(&text, e->to);
    tsr_buffer_text(&text, at + strlen(e->from));
    tsr_code code = decode(&ctx, text.bytes, text.size_bytes, &arena, &config).code;
    cr_assert_eq(code, e->code, "%s -> %s: %d %s", e->from, e->to, (int)code, ctx.error.text);
    if (e->message)
        cr_assert(strstr(ctx.error.text, e->message), "%s -> %s:\n  got  %s\n  want %s", e->from,
                  e->to, ctx.error.text, e->message);
    tsr_buffer_finish(&text);
    tsr_arena_finish(&arena);
}

static void check_edits(const edit *edits, size_t count) {
    for (size_t i = 0; i < count; i++) check_edit(&edits[i]);
}

Test(config, versions_and_features) {
    static const edit edits[] = {
        {"\"1.0\"", "\"2.0\"", TSR_VERSION,
         "config: formatVersion: expected 1.x, got 2.0; it needs a newer Tessera, this is "},
        {"\"1.0\"", "\"1.7\"", TSR_OK, NULL},
        {"\"1.0\",", "\"1.7\",\"news\":{\"x\":[1]},", TSR_OK, NULL},
        {"\"1.0\",", "\"1.0\",\"news\":{\"x\":[1]},", TSR_CORRUPT, "expected the canonical byte"},
        {"\"1.0\"", "\"0.9\"", TSR_CORRUPT, "formatVersion: expected MAJOR.MINOR from 1.0 on"},
        {"\"1.0\"", "\"1\"", TSR_CORRUPT, "got '1'"},
        {"\"1.0\"", "\"1.00\"", TSR_CORRUPT, "got '1.00'"},
        {"\"1.0\"", "\"1.0.0\"", TSR_CORRUPT, "got '1.0.0'"},
        {"\"1.0\"", "\"\"", TSR_CORRUPT, "got ''"},
        {"\"1.0\"", "\"99999999999.0\"", TSR_CORRUPT, "got '99999999999.0'"},
        {"\"1.0\"", "1", TSR_CORRUPT, "member 'formatVersion': expected a string, got a number"},
        {"\"required\":[]", "\"required\":[\"sparse\"]", TSR_VERSION,
         "config: required: 'sparse' needs a newer Tessera; this is "},
        {"\"required\":[]", "\"required\":[1]", TSR_CORRUPT, "required: expected names"},
        {"\"required\":[],", "", TSR_CORRUPT, "member 'required': expected an array, got nothing"},
        {"\"optional\":[]", "\"optional\":[\"a\",\"b\"],\"more\":1", TSR_OK, NULL},
        {"\"optional\":[]", "\"optional\":[\"b\",\"a\"]", TSR_CORRUPT,
         "optional: expected a name after 'b' in byte order, got 'a'"},
        {"\"optional\":[]", "\"optional\":[\"a\",\"a\"]", TSR_CORRUPT, "after 'a'"},
        {"\"optional\":[]", "\"optional\":[\"infinite-outputs\"]", TSR_CORRUPT,
         "expected the canonical byte"},
        {"\"portable\"", "\"fast\"", TSR_VERSION,
         "config: numerics: expected 'portable' or 'native', with '.2' or without, got 'fast'"},
    };
    check_edits(edits, TSR_COUNT(edits));
}

Test(config, spelling_is_canonical) {
    static const edit edits[] = {
        {"{\"formatVersion\"", " {\"formatVersion\"", TSR_CORRUPT, "offset 0 of "},
        {":64,\"rows", ": 64,\"rows", TSR_CORRUPT, "expected the canonical byte 0x36, got 0x20"},
        {"\"digits\"", "\"\\u0064igits\"", TSR_CORRUPT, "expected the canonical byte"},
        {"\"0x0p+0\"", "\"0x0p-0\"", TSR_CORRUPT, "a: expected a number as in"},
        {"\"-0x1.8p-2\"", "\"-0.375\"", TSR_CORRUPT, "a: expected a number as in \"0x1.8p+1\""},
        {"\"-0x1.8p-2\"", "-1", TSR_CORRUPT, "expected an integer 0 ... 2^53, got -1"},
        {"\"role\":\"param\",\"dtype\":\"f32\"", "\"dtype\":\"f32\",\"role\":\"param\"",
         TSR_CORRUPT, "expected the canonical byte"},
        {"\"role\":\"param\",", "\"role\":\"param\",\"of\":\"w\",", TSR_CORRUPT,
         "expected the canonical byte"},
        {"\"kind\":\"data\"", "\"kind\":\"data\",\"a\":\"0x0p+0\"", TSR_CORRUPT,
         "expected the canonical byte"},
        {"\"source\":\"step\"}],", "\"source\":\"step\"}],\"x\":1,", TSR_CORRUPT,
         "expected the canonical byte"},
    };
    check_edits(edits, TSR_COUNT(edits));
}

Test(config, members_have_their_types_and_values) {
    static const edit edits[] = {
        {"\"f32\"", "\"f8\"", TSR_CORRUPT,
         "config: tensors[0]: dtype: expected a known dtype, got 'f8'"},
        {"[64,10]", "[64,0]", TSR_CORRUPT,
         "config: tensor 'w': shape: expected dims[1] in 1 ... 2^53, got 0"},
        {"[64,10]", "[1,1,1,1,1,1,1,1,1]", TSR_CORRUPT,
         "config: tensors[0]: shape: expected rank 0 ... 8, got 9"},
        {"[64,10]", "[64,\"10\"]", TSR_CORRUPT, "shape: expected integers"},
        {"[64,10]", "[9007199254740992,9007199254740992]", TSR_CORRUPT,
         "expected at most 2^53 bytes, got 9007199254740992x9007199254740992xf32"},
        {"\"param\"", "\"weight\"", TSR_CORRUPT, "role: expected param, state or constant"},
        {"\"uniform\"", "\"xavier\"", TSR_CORRUPT,
         "init: expected data, constant, uniform or normal, got 'xavier'"},
        {"305419896", "4294967296", TSR_CORRUPT,
         "config: tensors[0]: stream: expected at most 4294967295, got 4294967296"},
        {"\"a\":\"-0x1.8p-2\"", "\"a\":\"0x1.8p-2\"", TSR_CORRUPT,
         "config: tensor 'w': init: expected a < b, got [0.375, 0.375)"},
        {"\"of\":\"w\"", "\"of\":\"v\"", TSR_CORRUPT,
         "config: tensor 'w.adam_m': of: expected a parameter, got the unknown name 'v'"},
        {"\"of\":\"w\"", "\"of\":\"z\"", TSR_CORRUPT, "of: expected a parameter, got constant 'z'"},
        {"\"name\":\"w.adam_m\"", "\"name\":\"w\"", TSR_CORRUPT,
         "config: tensors[1]: expected a name after 'w' in byte order, got 'w'"},
        {"\"name\":\"z\"", "\"name\":\"a\"", TSR_CORRUPT, "expected a name after 'w.adam_m'"},
        {"\"name\":\"z\"", "\"name\":\"\"", TSR_CORRUPT, "tensors[2]: name: expected 1 ... 255"},
        {"\"name\":\"z\"", "\"name\":\"z\\u001b[0m\"", TSR_CORRUPT, "printable UTF-8"},
        {"\"predict\"", "\"zzz\"", TSR_CORRUPT,
         "config: entries[1]: expected a name after 'zzz' in byte order, got 'train'"},
        {"\"infer\"", "\"run\"", TSR_CORRUPT, "kind: expected infer, train or eval, got 'run'"},
        {"\"batch\":64", "\"batch\":32", TSR_CORRUPT,
         "entry 'predict': inputs 'x': expected a first dimension of 32 (the batch), got "
         "64x64xui8"},
        {"\"batch\":64,\"rowsIndependent\":false", "\"batch\":0,\"rowsIndependent\":false",
         TSR_CORRUPT, "entry 'train': inputs 'images': expected a first dimension of 0"},
        {"\"shape\":[64,10]}]", "\"shape\":[10,64]}]", TSR_CORRUPT,
         "entry 'predict': outputs 'y': expected a first dimension of 64 (the batch), got "
         "10x64xf32"},
        {"false", "0", TSR_CORRUPT, "'rowsIndependent': expected a boolean"},
        {"\"source\":\"data\"", "\"source\":\"disk\"", TSR_CORRUPT,
         "config: entries[1].inputs[0]: source: expected argument, data, step or seed, got 'disk'"},
        {"\"name\":\"step\"", "\"name\":\"images\"", TSR_CORRUPT,
         "entry 'train': inputs[1]: expected a new name, got 'images' again (first at 0)"},
        {"\"i64\",\"shape\":[]", "\"i32\",\"shape\":[]", TSR_CORRUPT,
         "inputs 'step': expected i64 for the step, got i32"},
        {"\"virtualRanks\":1", "\"virtualRanks\":0", TSR_CORRUPT, "expected 1 ... 65536, got 0"},
        {"\"virtualRanks\":1", "\"virtualRanks\":3", TSR_CORRUPT,
         "entry 'train': batch: expected a multiple of the 3 virtual ranks, got 64"},
        {"\"virtualRanks\":1", "\"virtualRanks\":4", TSR_OK, NULL},
    };
    check_edits(edits, TSR_COUNT(edits));
}

Test(config, random_streams_are_distinct) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_config config = decode_example(&arena);
    config.tensors[1].init = TSR_INIT_NORMAL;
    config.tensors[1].init_a = 0;
    config.tensors[1].init_b = 1;
    config.tensors[1].init_stream = 5;
    cr_assert_eq(tsr_config_verify(&ctx, &config, TSR_COMPILE).code, TSR_OK);
    config.tensors[1].init_stream = config.tensors[0].init_stream;
    cr_assert_eq(tsr_config_verify(&ctx, &config, TSR_COMPILE).code, TSR_COMPILE);
    cr_assert_str_eq(ctx.error.text, "config: tensors 'w' and 'w.adam_m': expected two random "
                                     "streams, got 305419896 for both; rename one");
    tsr_arena_finish(&arena);
}

/* ---- structs that must be refused ---- */

Test(config, initial_values_fit_their_dtype) {
    static const struct {
        tsr_dtype dtype;
        double value;
        bool good;
    } cases[] = {
        {TSR_DTYPE_F64, 1e308, true},
        {TSR_DTYPE_F64, INFINITY, false},
        {TSR_DTYPE_F64, NAN, false},
        {TSR_DTYPE_F32, 3.4e38, true},
        {TSR_DTYPE_F32, 1e39, false},
        {TSR_DTYPE_I64, -9007199254740992.0, true},
        {TSR_DTYPE_I64, 1e300, false},
        {TSR_DTYPE_I32, -2147483648.0, true},
        {TSR_DTYPE_I32, 2147483648.0, false},
        {TSR_DTYPE_I32, 0.5, false},
        {TSR_DTYPE_I1, 1, true},
        {TSR_DTYPE_I1, 2, false},
        {TSR_DTYPE_UI8, 255, true},
        {TSR_DTYPE_UI8, -1, false},
        {TSR_DTYPE_I8, -128, true},
        {TSR_DTYPE_I8, 128, false},
        {TSR_DTYPE_F16, 65504, true},
        {TSR_DTYPE_F16, 65520, false},
        {TSR_DTYPE_BF16, 65520, true},
        {TSR_DTYPE_BF16, 1e39, false},
    };
    tsr_arena arena = {0};
    tsr_config config = decode_example(&arena);
    for (size_t i = 0; i < TSR_COUNT(cases); i++) {
        tsr_ctx ctx = {0};
        config.tensors[2].init = TSR_INIT_CONSTANT;
        config.tensors[2].dtype = cases[i].dtype;
        config.tensors[2].init_a = cases[i].value;
        cr_assert_eq(tsr_config_verify(&ctx, &config, TSR_USAGE).code,
                     cases[i].good ? TSR_OK : TSR_USAGE, "case %zu: %s", i, ctx.error.text);
    }
    tsr_arena_finish(&arena);
}

#define REFUSED(change, part)                                                                      \
    do {                                                                                           \
        tsr_arena arena = {0};                                                                     \
        tsr_ctx ctx = {0};                                                                         \
        tsr_config c = decode_example(&arena);                                                     \
        char *json = NULL;                                                                         \
        size_t size;                                                                               \
        change;                                                                                    \
        cr_assert_neq(tsr_config_encode(&ctx, &c, &arena, &json, &size).code, TSR_OK, #change);    \
        cr_assert_null(json);                                                                      \
        cr_assert(strstr(ctx.error.text, part), "%s", ctx.error.text);                             \
        tsr_arena_finish(&arena);                                                                  \
    } while (0)

Test(config, the_encoder_refuses_what_the_decoder_would) {
    static char long_name[300];
    memset(long_name, 'a', sizeof long_name - 1);
    REFUSED(c.version_minor = 2, "cannot write format version 1.2; expected at most 1.1");
    REFUSED(c.operations = tsr_hash("ops", 3), "config: program: expected");
    REFUSED(c.identity.program = tsr_hash("p", 1), "config: program: expected 0000");
    REFUSED(c.version_major = 0, "cannot write format version 0.0");
    REFUSED(c.name = NULL, "config: name: expected");
    REFUSED(c.name = long_name, "config: name: expected 1 ... 255 bytes");
    REFUSED(c.name = "\xff", "config: name: expected");
    REFUSED(c.name = "\xc2\x9b", "config: name: expected"); /* C1 control */
    REFUSED(c.producer = "a\nb", "config: producer");
    REFUSED(c.numerics = NULL,
            "config: numerics: expected 'portable' or 'native', with '.2' or without, got '?'");
    REFUSED(c.virtual_ranks = 65537, "got 65537");
    REFUSED(c.tensor_count = TSR_CONFIG_TENSORS_MAX + 1, "expected at most 1048576, got 1048577");
    REFUSED(c.entry_count = TSR_CONFIG_ENTRIES_MAX + 1, "expected at most 256, got 257");
    REFUSED(c.tensors[0].role = 4, "role: expected a known number, got 4");
    REFUSED(c.tensors[0].of = "w", "with role state only, got role param");
    REFUSED(c.tensors[1].kind = NULL, "kind: expected a kind of state");
    REFUSED(c.tensors[1].of = NULL, "of: expected the name of a parameter");
    REFUSED(c.tensors[0].dtype = 0, "dtype: expected a known number, got 0");
    REFUSED(c.tensors[0].shape.rank = 9, "expected rank 0 ... 8, got 9");
    REFUSED(c.tensors[0].init = 9, "init: expected a known number, got 9");
    REFUSED(c.tensors[0].init_b = INFINITY, "init: expected a finite number");
    REFUSED(c.tensors[0].dtype = TSR_DTYPE_I32,
            "expected a float dtype for random values, got i32");
    REFUSED((c.tensors[0].init = TSR_INIT_NORMAL, c.tensors[0].init_b = -1),
            "expected a standard deviation >= 0, got -1");
    REFUSED(c.entries[0].kind = 0, "kind: expected a known number, got 0");
    REFUSED(c.entries[0].input_count = 257, "inputs: expected at most 256, got 257");
    REFUSED(c.entries[0].output_count = 257, "outputs: expected at most 256, got 257");
    REFUSED((c.entries[0].input_count = c.entries[0].output_count = 0, c.entries[0].batch = 0),
            "rows_independent: expected a batch, got none");
    REFUSED(c.tensors[0].init_a = -1e39,
            "expected a range that f32 can hold, got -9.9999999999999994e+38");
    REFUSED(c.tensors[0].init_b = 1e39,
            "expected a range that f32 can hold, got -0.375 and 9.9999999999999994e+38");
    REFUSED(c.tensors[0].name = "", "config: tensors[0]: expected a name");
    REFUSED(c.entries[1].name = NULL, "config: entries[1]: expected a name");
    REFUSED(c.entries[0].outputs[0].source = TSR_PORT_DATA, "source: expected 1 ... 1, got 2");
    REFUSED(c.entries[0].inputs[0].shape.dims[1] = UINT64_MAX,
            "config: entry 'predict': inputs 'x': shape: expected dims[1] in 0 ... 2^53");
    REFUSED(c.entries[0].inputs[0].name = "", "inputs[0]: expected a name");
    REFUSED(c.entries[0].outputs[0].watched = true,
            "watched: expected an output of training, got one of another entry");
    REFUSED(c.entries[1].inputs[0].watched = true,
            "watched: expected an output of training, got one of the inputs");
    REFUSED((c.entries[1].rows_independent = true), "outputs 'loss': expected a first dimension");
}

/* A parameter with two tensors of optimizer state, as AdamW has, is three tensors. */
static void make_parameters(tsr_config *config, tsr_arena *arena, size_t count) {
    config->tensor_count = 3 * count;
    config->tensors = TSR_NEW(arena, tsr_config_tensor, config->tensor_count);
    for (size_t i = 0; i < count; i++) {
        tsr_config_tensor *rows = &config->tensors[3 * i];
        rows[0] = (tsr_config_tensor){
            .name = tsr_arena_printf(arena, "model.layers.%06zu.mlp.experts.weight", i),
            .role = TSR_ROLE_PARAM,
            .dtype = TSR_DTYPE_F32,
            .shape = {2, {1024, 4096}},
            .init = TSR_INIT_NORMAL,
            .init_b = 0.1,
            .init_stream = (uint32_t)i};
        for (int k = 1; k <= 2; k++)
            rows[k] = (tsr_config_tensor){
                .name = tsr_arena_printf(arena, "%s.adam_%c", rows[0].name, k == 1 ? 'm' : 'v'),
                .role = TSR_ROLE_STATE,
                .of = rows[0].name,
                .kind = k == 1 ? "adam_m" : "adam_v",
                .dtype = TSR_DTYPE_F32,
                .shape = {2, {1024, 4096}},
                .init = TSR_INIT_CONSTANT};
    }
}

/* The time to write and read 100,000 parameters with AdamW is linear in their number. */
Test(config, hundred_thousand_parameters) {
    enum { COUNT = 100000 };
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_config config = decode_example(&arena), again;
    size_t size;
    char *json = NULL;
    make_parameters(&config, &arena, COUNT);
    clock_t begin = clock();
    cr_assert_eq(tsr_config_encode(&ctx, &config, &arena, &json, &size).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(tsr_config_decode(&ctx, json, size, &arena, &again).code, TSR_OK, "%s",
                 ctx.error.text);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    cr_assert_eq(again.tensor_count, 3 * COUNT);
    cr_assert_str_eq(again.tensors[3 * COUNT - 1].of, "model.layers.099999.mlp.experts.weight");
    cr_assert_lt(seconds, 60.0, "%.1f s", seconds);
    tsr_arena_finish(&arena);
}

Test(config, sizes_are_limited) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_config config = decode_example(&arena), again;
    char *json = NULL;
    size_t size;
    /* 1,100 tensors of 2^53 bytes: more than 2^63. */
    config.tensor_count = 1100;
    config.tensors = TSR_NEW(&arena, tsr_config_tensor, config.tensor_count);
    for (size_t i = 0; i < config.tensor_count; i++)
        config.tensors[i] = (tsr_config_tensor){.name = tsr_arena_printf(&arena, "t%05zu", i),
                                                .role = TSR_ROLE_PARAM,
                                                .dtype = TSR_DTYPE_UI8,
                                                .shape = {1, {UINT64_C(1) << 53}}};
    cr_assert_eq(tsr_config_verify(&ctx, &config, TSR_USAGE).code, TSR_USAGE);
    cr_assert_str_eq(ctx.error.text,
                     "config: tensor 't01023': expected less than 2^63 bytes up to here, got more");
    /* Long names that JSON escapes: more than 64 MiB with few tokens. */
    config.tensor_count = 45000;
    config.tensors = TSR_NEW(&arena, tsr_config_tensor, config.tensor_count);
    for (size_t i = 0; i < config.tensor_count; i++) {
        char *name = tsr_arena_printf(&arena, "%05zu%0250d", i, 0);
        memset(name + 5, '"', 250);
        config.tensors[i] = (tsr_config_tensor){.name = name,
                                                .role = i ? TSR_ROLE_STATE : TSR_ROLE_PARAM,
                                                .of = i ? config.tensors[0].name : NULL,
                                                .kind = i ? name : NULL,
                                                .dtype = TSR_DTYPE_UI8};
    }
    cr_assert_eq(tsr_config_encode(&ctx, &config, &arena, &json, &size).code, TSR_COMPILE);
    cr_assert(strstr(ctx.error.text, "config: expected at most 67108864 bytes, got "), "%s",
              ctx.error.text);
    char *blanks = malloc(TSR_CONFIG_BYTES_MAX + 1);
    memset(blanks, ' ', TSR_CONFIG_BYTES_MAX + 1);
    cr_assert_eq(decode(&ctx, blanks, TSR_CONFIG_BYTES_MAX + 1, &arena, &again).code, TSR_CORRUPT);
    cr_assert_str_eq(ctx.error.text, "config: expected at most 67108864 bytes, got 67108865");
    free(blanks);
    tsr_arena_finish(&arena);
}

Test(config, ports_in_json_are_counted) {
    tsr_buffer ports = {0};
    for (int i = 0; i <= TSR_CONFIG_PORTS_MAX; i++)
        tsr_buffer_printf(&ports, "%s{\"name\":\"y%d\",\"dtype\":\"f32\",\"shape\":[64]}",
                          i ? "," : "\"outputs\":[", i);
    tsr_buffer_text(&ports, "]}");
    check_edit(&(edit){"\"outputs\":[{\"name\":\"y\",\"dtype\":\"f32\",\"shape\":[64,10]}]}",
                       ports.bytes, TSR_CORRUPT,
                       "config: entries[0]: outputs: expected at most 256, got 257"});
    tsr_buffer_finish(&ports);
}

Test(config, names_of_numbers) {
    tsr_entry_kind kind = TSR_ENTRY_EVAL;
    cr_assert_str_eq(tsr_tensor_role_name(TSR_ROLE_CONSTANT), "constant");
    cr_assert_str_eq(tsr_tensor_role_name(0), "?");
    cr_assert_str_eq(tsr_init_kind_name(TSR_INIT_DATA), "data");
    cr_assert_str_eq(tsr_port_source_name((tsr_port_source)77), "?");
    cr_assert(tsr_entry_kind_parse("train", &kind));
    cr_assert_eq(kind, TSR_ENTRY_TRAIN);
    cr_assert_not(tsr_entry_kind_parse("Train", &kind));
}

Test(config, streams_are_the_first_bytes_of_sha256) { /* FIPS 180-2, appendix B.1 */
    cr_assert_eq(tsr_name_stream("abc"), 0xbf1678ba);
}

/* Random bytes and random JSON cause no crash, but an error with a message. */
Test(config, noise_is_refused) {
    uint64_t seed = 4;
    for (int i = 0; i < 20000; i++) {
        char bytes[200];
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        tsr_config config;
        size_t size = random_below(&seed, sizeof bytes);
        for (size_t j = 0; j < size; j++)
            bytes[j] = i % 2 ? (char)random_u64(&seed) : "{}[]\":,a10"[random_below(&seed, 10)];
        cr_assert_eq(decode(&ctx, bytes, size, &arena, &config).code, TSR_CORRUPT);
        cr_assert_neq(ctx.error.text[0], 0);
        tsr_arena_finish(&arena);
    }
}

/* ---- the program digest ---- */

static tsr_config with_program(tsr_arena *arena) {
    static const tsr_hyperparameter list[] = {{"eps", "1e-08", false}, {"lr", "0.01", false}};
    tsr_config config = decode_example(arena);
    config.operations = tsr_hash("ops", 3);
    config.identity = (tsr_identity){{{0}}, 2, list};
    config.identity.program = tsr_config_program_digest(&config);
    return config;
}

Test(config, a_program_is_version_1_1) {
    tsr_arena arena = {0};
    tsr_ctx ctx = {0};
    tsr_config config = with_program(&arena), back;
    char *json = NULL, expected[400], hex[2][TSR_DIGEST_HEX + 1];
    size_t size;
    tsr_digest_format(&config.identity.program, hex[0]);
    tsr_digest_format(&config.operations, hex[1]);
    snprintf(expected, sizeof expected,
             "\"virtualRanks\":1,\"program\":\"%s\",\"hyperparameters\":{\"eps\":\"1e-08\","
             "\"lr\":\"0.01\"},\"operations\":\"%s\",\"tensors\":[",
             hex[0], hex[1]);
    cr_assert_eq(tsr_config_encode(&ctx, &config, &arena, &json, &size).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert(strstr(json, "{\"formatVersion\":\"1.1\""));
    cr_assert(strstr(json, expected), "%s", json);
    cr_assert_eq(decode(&ctx, json, size, &arena, &back).code, TSR_OK, "%s", ctx.error.text);
    expect_equal_programs(&config, &back);
    tsr_arena_finish(&arena);
}

/* Hashed by hand, as manifests/README.md says; the constant "z" is left out. */
Test(config, the_program_digest_is_the_documented_one) {
    tsr_arena arena = {0};
    tsr_config config = with_program(&arena);
    tsr_buffer text = {0};
    const double low = -0.375, high = 0.375, none = 0;
    uint64_t bits[3];
    memcpy(&bits[0], &low, 8), memcpy(&bits[1], &high, 8), memcpy(&bits[2], &none, 8);
    tsr_buffer_append(&text, "tessera.program.1", 18);
    tsr_buffer_u64(&text, 8), tsr_buffer_append(&text, "portable", 8);
    tsr_buffer_append(&text, config.operations.bytes, 32);
    tsr_buffer_u64(&text, 2);
    tsr_buffer_u64(&text, 1), tsr_buffer_append(&text, "w", 1);
    const uint64_t w[] = {TSR_ROLE_PARAM,   0,       0,       TSR_DTYPE_F32, 2, 64, 10,
                          TSR_INIT_UNIFORM, bits[0], bits[1], 305419896};
    for (size_t i = 0; i < TSR_COUNT(w); i++) tsr_buffer_u64(&text, w[i]);
    tsr_buffer_u64(&text, 8), tsr_buffer_append(&text, "w.adam_m", 8);
    tsr_buffer_u64(&text, TSR_ROLE_STATE);
    tsr_buffer_u64(&text, 1), tsr_buffer_append(&text, "w", 1);
    tsr_buffer_u64(&text, 6), tsr_buffer_append(&text, "adam_m", 6);
    const uint64_t m[] = {TSR_DTYPE_F32, 2, 64, 10, TSR_INIT_CONSTANT, bits[2], 0, 0};
    for (size_t i = 0; i < TSR_COUNT(m); i++) tsr_buffer_u64(&text, m[i]);
    tsr_digest expected = tsr_hash(text.bytes, text.size_bytes);
    cr_assert(tsr_digest_equal(&expected, &config.identity.program));
    tsr_buffer_finish(&text);
    tsr_arena_finish(&arena);
}

#define CHANGES(is_other, change)                                                                  \
    do {                                                                                           \
        tsr_arena arena = {0};                                                                     \
        tsr_config c = with_program(&arena);                                                       \
        change;                                                                                    \
        tsr_digest digest = tsr_config_program_digest(&c);                                         \
        cr_assert_eq(tsr_digest_equal(&digest, &c.identity.program), !(is_other), #change);        \
        tsr_arena_finish(&arena);                                                                  \
    } while (0)

Test(config, what_the_program_digest_covers) {
    CHANGES(false, c.name = "another");
    CHANGES(false, c.producer = "tessera 9");
    CHANGES(false, c.virtual_ranks = 4);
    CHANGES(false, c.identity.hyperparameter_count = 0);
    CHANGES(false, c.tensors[2].init = TSR_INIT_CONSTANT); /* "z" */
    CHANGES(true, c.numerics = "native");
    CHANGES(true, c.numerics = "portable.2");
    CHANGES(true, c.operations.bytes[31] ^= 1);
    CHANGES(true, c.tensor_count = 1);
    CHANGES(true, c.tensors[0].name = "v");
    CHANGES(true, c.tensors[0].role = TSR_ROLE_CONSTANT);
    CHANGES(true, c.tensors[1].kind = "adam_v");
    CHANGES(true, c.tensors[0].dtype = TSR_DTYPE_F64);
    CHANGES(true, c.tensors[0].shape.dims[1] = 11);
    CHANGES(true, c.tensors[0].init = TSR_INIT_NORMAL);
    CHANGES(true, c.tensors[0].init_a = -0.25);
    CHANGES(true, c.tensors[0].init_b = 0.25);
    CHANGES(true, c.tensors[0].init_stream ^= 1);
    CHANGES(true, c.tensors[1].init_a = 1);
}

/* Replaces the first `from` of the written config, and expects the code and this part of a message.
 */
static void refuse_changed(const char *from, const char *to, tsr_code code, const char *part) {
    tsr_arena arena = {0};
    tsr_ctx ctx = {0};
    tsr_config config = with_program(&arena), back;
    char *json = NULL, *at;
    size_t size;
    cr_assert_eq(tsr_config_encode(&ctx, &config, &arena, &json, &size).code, TSR_OK);
    cr_assert(at = strstr(json, from), "%s", from);
    const char *changed =
        tsr_arena_printf(&arena, "%.*s%s%s", (int)(at - json), json, to, at + strlen(from));
    cr_assert_eq(decode(&ctx, changed, strlen(changed), &arena, &back).code, code, "%s: %s", to,
                 ctx.error.text);
    cr_assert(strstr(ctx.error.text, part), "%s: %s", to, ctx.error.text);
    tsr_arena_finish(&arena);
}

Test(config, programs_that_are_refused) {
    refuse_changed("\"program\":\"", "\"program\":\"0", TSR_CORRUPT, "program: expected a digest");
    refuse_changed("\"program\":", "\"progran\":", TSR_CORRUPT, "canonical byte");
    refuse_changed("\"program\":\"", "\"program\":7,\"x\":\"", TSR_CORRUPT, "'program'");
    refuse_changed("\"operations\":", "\"operation\":", TSR_CORRUPT, "'operations'");
    refuse_changed("\"operations\":\"", "\"operations\":\"f", TSR_CORRUPT, "operations: expected");
    refuse_changed("\"hyperparameters\":{", "\"hyper\":{", TSR_CORRUPT, "'hyperparameters'");
    refuse_changed("{\"eps\":\"1e-08\",\"lr\":\"0.01\"}", "[]", TSR_CORRUPT, "'hyperparameters'");
    refuse_changed("\"0.01\"", "0", TSR_CORRUPT, "expected strings");
    refuse_changed("\"0.01\"", "\"0 01\"", TSR_CORRUPT, "a value of its hyper-parameters");
    refuse_changed("\"lr\"", "\"a\"", TSR_CORRUPT, "not in the order");
    refuse_changed("-0x1.8p-2", "-0x1p-2", TSR_CORRUPT, "config: program: expected");
    refuse_changed("\"1.1\"", "\"1.0\"", TSR_CORRUPT, "canonical byte");
}

/* A later minor version may cover more, so its digest is believed. */
Test(config, a_program_of_a_later_minor_version) {
    tsr_arena arena = {0};
    tsr_ctx ctx = {0};
    tsr_config config = with_program(&arena), back;
    char *json = NULL, *at;
    size_t size;
    cr_assert_eq(tsr_config_encode(&ctx, &config, &arena, &json, &size).code, TSR_OK);
    memcpy(strstr(json, "\"1.1\""), "\"1.7\"", 5);
    memcpy(strstr(json, "-0x1.8p-2"), "-0x1.4p-2", 9);
    cr_assert_eq(decode(&ctx, json, size, &arena, &back).code, TSR_OK, "%s", ctx.error.text);
    cr_assert(tsr_digest_equal(&config.identity.program, &back.identity.program));
    at = strstr(json, "\"program\"");
    memcpy(at, "\"pr0gram\"", 9); /* nothing says that a later version has it */
    cr_assert_eq(decode(&ctx, json, size, &arena, &back).code, TSR_OK, "%s", ctx.error.text);
    cr_assert_not(tsr_identity_is_known(&back.identity));
    tsr_arena_finish(&arena);
}
