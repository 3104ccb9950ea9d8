/* SPDX-License-Identifier: Apache-2.0 */
#include "manifests/deployment.h"
#include "runtime/base/array.h"
#include "runtime/base/io/json.h"
#include "tests/manifests/random_manifests.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <string.h>

Test(deployment, one_rank_holds_everything) {
    tsr_config_tensor tensors[] = {
        {.name = "w",
         .role = TSR_ROLE_PARAM,
         .dtype = TSR_DTYPE_F32,
         .shape = {2, {64, 10}},
         .init = TSR_INIT_CONSTANT},
        {.name = "w.m",
         .role = TSR_ROLE_STATE,
         .of = "w",
         .kind = "adam_m",
         .dtype = TSR_DTYPE_F32,
         .shape = {2, {64, 10}},
         .init = TSR_INIT_CONSTANT},
        {.name = "z", .role = TSR_ROLE_CONSTANT, .dtype = TSR_DTYPE_I32},
    };
    tsr_config_port input = {
        .name = "x", .dtype = TSR_DTYPE_UI8, .shape = {2, {64, 64}}, .source = TSR_PORT_DATA};
    tsr_config_port output = {.name = "loss", .dtype = TSR_DTYPE_F32, .source = TSR_PORT_ARGUMENT};
    tsr_config_entry entry = {.name = "train",
                              .kind = TSR_ENTRY_TRAIN,
                              .batch = 64,
                              .input_count = 1,
                              .output_count = 1,
                              .inputs = &input,
                              .outputs = &output};
    tsr_config config = {.version_major = 1,
                         .name = "digits",
                         .producer = "tessera 0.1.0",
                         .numerics = "portable",
                         .virtual_ranks = 8,
                         .tensor_count = 3,
                         .entry_count = 1,
                         .tensors = tensors,
                         .entries = &entry};
    static const char want[] =
        "{\"formatVersion\":\"1.3\",\"name\":\"digits\",\"producer\":\"tessera 0.1.0\","
        "\"mesh\":{\"axes\":[{\"name\":\"data\",\"size\":8,\"batch\":true}],\"virtualRanks\":8,"
        "\"ranks\":1},"
        "\"parameters\":[{\"name\":\"w\",\"dtype\":\"f32\",\"shape\":[64,10],"
        "\"shards\":[{\"rank\":0,\"begin\":0,\"end\":640}]}],"
        "\"optimizer\":[{\"name\":\"w.m\",\"of\":\"w\",\"kind\":\"adam_m\",\"dtype\":\"f32\","
        "\"shape\":[64,10],\"shards\":[{\"rank\":0,\"begin\":0,\"end\":640}]}],"
        "\"constants\":[{\"name\":\"z\",\"dtype\":\"i32\",\"shape\":[],"
        "\"shards\":[{\"rank\":0,\"begin\":0,\"end\":1}]}],"
        "\"collectives\":[],\"checkpoint\":{\"policy\":\"none\"},"
        "\"pipeline\":{\"schedule\":\"none\",\"stages\":[{\"index\":0,\"ranks\":[0],\"after\":[],"
        "\"entries\":[{\"name\":\"train\",\"kind\":\"train\",\"batch\":64,"
        "\"inputs\":[{\"name\":\"x\",\"dtype\":\"ui8\",\"shape\":[64,64],\"source\":\"data\"}],"
        "\"outputs\":[{\"name\":\"loss\",\"dtype\":\"f32\",\"shape\":[]}]}]}]}}";
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    char *json;
    size_t size;
    cr_assert_eq(
        tsr_deployment_encode(&ctx, &config, NULL, TSR_PART_ALL, &arena, &json, &size).code, TSR_OK,
        "%s", ctx.error.text);
    cr_assert_str_eq(json, want);
    cr_assert_eq(size, strlen(want));
    config.virtual_ranks = 3;
    cr_assert_eq(
        tsr_deployment_encode(&ctx, &config, NULL, TSR_PART_ALL, &arena, &json, &size).code,
        TSR_COMPILE);
    tsr_arena_finish(&arena);
}

/* Strict JSON; every tensor is in exactly one list. */
Test(deployment, random_configs) {
    static const tsr_json_options options = {.subject = "deployment", .code = TSR_CORRUPT};
    static const char *const keys[] = {"parameters", "optimizer", "constants"};
    for (uint64_t seed = 0; seed < 100; seed++) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        tsr_config config = random_config(seed, (uint32_t)(seed % 30), &arena);
        char *json;
        size_t size, count, total = 0;
        cJSON *root = NULL;
        const cJSON *array;
        cr_assert_eq(
            tsr_deployment_encode(&ctx, &config, NULL, TSR_PART_ALL, &arena, &json, &size).code,
            TSR_OK, "%s", ctx.error.text);
        cr_assert_eq(tsr_json_parse(&ctx, json, size, &options, &root).code, TSR_OK, "%s",
                     ctx.error.text);
        for (size_t i = 0; i < 3; i++) {
            cr_assert_eq(tsr_json_get_array(&ctx, root, keys[i], &options, &array, &count).code,
                         TSR_OK);
            total += count;
        }
        cr_assert_eq(total, config.tensor_count);
        tsr_json_destroy(root);
        tsr_arena_finish(&arena);
    }
}

/* ---- results of passes ---- */

static uint64_t begins[] = {0, 2, 3}, ends[] = {2, 3, 3};
static tsr_deployment_axis axes[] = {{"data", 3, false}, {"model", 1, false}};
static tsr_deployment_shard shards[] = {{"w", "data", 3, begins, ends}};
static tsr_deployment_collective collectives[] = {{"train", "all_gather", "data", "w", 3, 24}};
static tsr_deployment_step steps[] = {{"train", "w"}};
static tsr_deployment_recompute recomputes[] = {{"train", 1000, 400, 7, 12345}};
static const tsr_deployment example = {.axis_count = 2,
                                       .shard_count = 1,
                                       .collective_count = 1,
                                       .recompute_count = 1,
                                       .axes = axes,
                                       .shards = shards,
                                       .collectives = collectives,
                                       .recomputes = recomputes,
                                       .step_count = 1,
                                       .steps = steps,
                                       .path = "m.json",
                                       .include = TSR_PART_MESH | TSR_PART_COLLECTIVES};
static const char example_json[] =
    "{\"include\":17,\"path\":\"m.json\",\"axes\":[{\"name\":\"data\",\"size\":3,"
    "\"batch\":false},{\"name\":\"model\",\"size\":1,\"batch\":false}],\"shards\":[{\"tensor\":"
    "\"w\",\"axis\":\"data\",\"ends\":[2,3,3]}],"
    "\"collectives\":[{\"entry\":\"train\",\"kind\":\"all_gather\",\"axis\":\"data\",\"tensor\":"
    "\"w\","
    "\"positions\":3,\"bytes\":24}],\"recomputes\":[{\"entry\":\"train\",\"bytesBefore\":1000,"
    "\"bytesSaved\":400,\"ops\":7,\"operations\":12345}],"
    "\"steps\":[{\"entry\":\"train\",\"tensor\":\"w\"}]}";

static tsr_config small_config(void) {
    static tsr_config_tensor tensors[] = {
        {.name = "w", .role = TSR_ROLE_PARAM, .dtype = TSR_DTYPE_F32, .shape = {1, {3}}}};
    static tsr_config_entry entries[] = {{.name = "train", .kind = TSR_ENTRY_TRAIN}};
    return (tsr_config){.version_major = 1,
                        .name = "m",
                        .producer = "test",
                        .numerics = "portable",
                        .virtual_ranks = 1,
                        .tensor_count = 1,
                        .entry_count = 1,
                        .tensors = tensors,
                        .entries = entries};
}

/* Returns the example with every part, in the arena. */
static char *encode_example(tsr_arena *arena, size_t *out_size_bytes) {
    tsr_ctx ctx = {0};
    tsr_config config = small_config();
    char *json;
    cr_assert_eq(
        tsr_deployment_encode(&ctx, &config, &example, TSR_PART_ALL, arena, &json, out_size_bytes)
            .code,
        TSR_OK, "%s", ctx.error.text);
    return json;
}

Test(deployment, there_and_back) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_deployment read;
    char *json, *again;
    size_t size;
    cr_assert_eq(tsr_deployment_write(&ctx, &example, &arena, &json, &size).code, TSR_OK);
    cr_assert_str_eq(json, example_json);
    cr_assert_eq(tsr_deployment_read(&ctx, json, size, &arena, &read).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(read.shards[0].begin[2], 3);
    cr_assert_eq(tsr_deployment_write(&ctx, &read, &arena, &again, &size).code, TSR_OK);
    cr_assert_str_eq(again, example_json);
    /* Every truncation is refused. */
    for (size_t cut = 0; cut < strlen(json); cut++)
        cr_assert_eq(tsr_deployment_read(&ctx, json, cut, &arena, &read).code, TSR_CORRUPT);
    tsr_arena_finish(&arena);
}

Test(deployment, sharded_tensors_and_parts) {
    static const char want[] =
        "{\"formatVersion\":\"1.1\",\"name\":\"m\",\"producer\":\"test\",\"mesh\":{\"axes\":[{"
        "\"name\":"
        "\"data\",\"size\":3,\"batch\":false},{\"name\":\"model\",\"size\":1,\"batch\":false}],"
        "\"virtualRanks\":1,\"ranks\":1},\"parameters\":[{\"name\":\"w\",\"dtype\":\"f32\","
        "\"shape\":[3],"
        "\"axis\":\"data\",\"shards\":[{\"rank\":0,\"position\":0,\"begin\":0,\"end\":2},{\"rank\":"
        "0,"
        "\"position\":1,\"begin\":2,\"end\":3},{\"rank\":0,\"position\":2,\"begin\":3,\"end\":3}]}]"
        ","
        "\"optimizer\":[],\"constants\":[],\"collectives\":[{\"entry\":\"train\",\"kind\":\"all_"
        "gather\","
        "\"axis\":\"data\",\"tensor\":\"w\",\"positions\":3,\"bytes\":24}],\"checkpoint\":{"
        "\"policy\":"
        "\"recompute\",\"entries\":[{\"entry\":\"train\",\"bytesBefore\":1000,\"bytesSaved\":400,"
        "\"ops\":7,"
        "\"operations\":12345}]},\"pipeline\":";
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_config config = small_config();
    size_t size;
    char *json = encode_example(&arena, &size);
    cr_assert(strncmp(json, want, sizeof want - 1) == 0, "%s", json);
    cr_assert_eq(
        tsr_deployment_encode(&ctx, &config, &example, TSR_PART_CHECKPOINT, &arena, &json, &size)
            .code,
        TSR_OK);
    cr_assert_not(strstr(json, "mesh") || strstr(json, "parameters") || strstr(json, "pipeline"));
    tsr_arena_finish(&arena);
}

Test(deployment, what_does_not_fit_the_config_is_refused) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_config config = small_config();
    tsr_deployment changed = example;
    tsr_deployment_shard other = {"v", "data", 3, begins, ends};
    uint64_t short_ends[] = {1, 2, 2};
    char *json;
    size_t size;
    changed.shards = &other;
    cr_assert_eq(
        tsr_deployment_encode(&ctx, &config, &changed, TSR_PART_ALL, &arena, &json, &size).code,
        TSR_COMPILE);
    cr_assert_str_eq(ctx.error.text,
                     "deployment: shards of 'v', which is not a tensor of the config");
    other = (tsr_deployment_shard){"w", "data", 3, begins, short_ends};
    cr_assert_eq(
        tsr_deployment_encode(&ctx, &config, &changed, TSR_PART_ALL, &arena, &json, &size).code,
        TSR_COMPILE);
    cr_assert_str_eq(ctx.error.text, "deployment: shards of 'w' cover 2 elements; it has 3");
    tsr_arena_finish(&arena);
}

/* ---- the manifest read back ---- */

static void check_again(const char *json, size_t size, tsr_deployment_manifest *out_manifest,
                        tsr_arena *arena) {
    tsr_ctx ctx = {0};
    char *again;
    size_t again_size;
    cr_assert_eq(tsr_deployment_decode(&ctx, json, size, arena, out_manifest).code, TSR_OK,
                 "%s\n%s", ctx.error.text, json);
    cr_assert_eq(tsr_deployment_encode_again(&ctx, out_manifest, arena, &again, &again_size).code,
                 TSR_OK);
    cr_assert_str_eq(again, json);
    cr_assert_eq(again_size, size);
}

Test(deployment, random_manifests_come_back) {
    for (uint64_t seed = 0; seed < 200; seed++) {
        tsr_ctx ctx = {0};
        tsr_arena arena = {0};
        tsr_config config = random_config(seed, (uint32_t)(seed % 30), &arena);
        tsr_deployment deployment = random_deployment(seed, &config, &arena);
        tsr_deployment_manifest read;
        unsigned parts = seed % 3 ? TSR_PART_ALL : (unsigned)(seed / 3 % (TSR_PART_ALL + 1));
        char *json;
        size_t size;
        cr_assert_eq(tsr_deployment_encode(&ctx, &config, seed % 2 ? &deployment : NULL, parts,
                                           &arena, &json, &size)
                         .code,
                     TSR_OK, "%s", ctx.error.text);
        check_again(json, size, &read, &arena);
        cr_assert_str_eq(read.config.name, config.name);
        if (parts & TSR_PART_MESH) cr_assert_eq(read.config.virtual_ranks, config.virtual_ranks);
        cr_assert_eq(read.config.tensor_count,
                     parts & TSR_PART_OPTIMIZER ? config.tensor_count : 0);
        for (size_t i = 0; i < read.config.tensor_count; i++) {
            const tsr_config_tensor *is = &read.config.tensors[i], *must = &config.tensors[i];
            cr_assert_str_eq(is->name, must->name);
            cr_assert(is->role == must->role && is->dtype == must->dtype &&
                      memcmp(&is->shape, &must->shape, sizeof is->shape) == 0);
        }
        tsr_arena_finish(&arena);
    }
}

Test(deployment, what_passes_did_comes_back) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_deployment_manifest read;
    size_t size;
    char *json = encode_example(&arena, &size);
    check_again(json, size, &read, &arena);
    cr_assert_eq(read.version_minor, 1);
    cr_assert_eq(read.parts, TSR_PART_ALL);
    const tsr_deployment *d = &read.deployment;
    cr_assert(d->axis_count == 2 && d->shard_count == 1 && d->collective_count == 1 &&
              d->recompute_count == 1);
    cr_assert_str_eq(d->axes[1].name, "model");
    cr_assert_eq(d->axes[0].size, 3);
    cr_assert_str_eq(d->shards[0].tensor, "w");
    cr_assert(d->shards[0].position_count == 3 && d->shards[0].begin[1] == 2 &&
              d->shards[0].end[1] == 3);
    cr_assert(d->collectives[0].positions == 3 && d->collectives[0].bytes == 24);
    cr_assert(d->recomputes[0].bytes_saved == 400 && d->recomputes[0].operations == 12345);
    for (size_t cut = 0; cut < size; cut++)
        cr_assert_eq(tsr_deployment_decode(&ctx, json, cut, &arena, &read).code, TSR_CORRUPT);
    tsr_arena_finish(&arena);
}

/* Returns `json` with the first `from` replaced by `to`, in the arena. */
static char *changed(const char *json, const char *from, const char *to, tsr_arena *arena) {
    const char *at = strstr(json, from);
    cr_assert(at, "%s", from);
    return tsr_arena_printf(arena, "%.*s%s%s", (int)(at - json), json, to, at + strlen(from));
}

static const struct {
    const char *from, *to, *text;
    tsr_code code;
} damaged[] = {
    {"\"1.1\"", "\"2.0\"", "deployment: formatVersion: expected 1.x, got 2.0", TSR_VERSION},
    {"\"1.1\"", "\"01.1\"", "deployment: formatVersion: expected MAJOR.MINOR", TSR_CORRUPT},
    {"\"1.1\"", "\"1.0\"", "deployment: offset 20 of", TSR_CORRUPT},
    {"\"name\":\"m\"", "\"name\":\"\"", "deployment: name: expected 1 ...", TSR_CORRUPT},
    {"\"size\":3", "\"size\":0", "deployment: axis 'data': expected a size of 1 ...", TSR_CORRUPT},
    {"\"ranks\":1", "\"ranks\":2",
     "deployment: mesh: expected axes, 1 ... 65536 virtual ranks on 1 "
     "rank, got 2 axes, 1 on 2",
     TSR_CORRUPT},
    {"\"batch\":false", "\"batch\":true", "deployment: offset", TSR_CORRUPT},
    /* names are searched in the existing parts */
    {"\"parameters\"", "\"Parameters\"", "deployment: offset", TSR_CORRUPT},
    {"\"optimizer\"", "\"other\"", "deployment: member 'optimizer': expected", TSR_CORRUPT},
    {"\"f32\"", "\"f31\"", "deployment: parameters[0]: dtype: expected a known dtype, got 'f31'",
     TSR_CORRUPT},
    {"\"shape\":[3]", "\"shape\":[4]",
     "deployment: parameters[0]: shards cover 3 elements; it has 4", TSR_CORRUPT},
    {"\"shape\":[3]", "\"shape\":[0]",
     "deployment: parameters[0]: shape: expected dims of at least 1", TSR_CORRUPT},
    {"\"shape\":[3]", "\"shape\":[9007199254740992,9007199254740992]",
     "deployment: parameters[0]: shape: expected fewer than 2^64 elements", TSR_CORRUPT},
    {"\"begin\":2,\"end\":3", "\"begin\":1,\"end\":3",
     "deployment: parameters[0]: expected a range from 2 on, got 1 to 3", TSR_CORRUPT},
    {"\"begin\":2,\"end\":3", "\"begin\":2,\"end\":1",
     "deployment: parameters[0]: expected a range from 2 on, got 2 to 1", TSR_CORRUPT},
    {"\"position\":1", "\"position\":2", "deployment: offset", TSR_CORRUPT},
    {",\"axis\":\"data\",\"shards\"", ",\"shards\"",
     "deployment: parameters[0]: shards: expected 1 ... 1, got 3", TSR_CORRUPT},
    {"\"optimizer\":[]",
     "\"optimizer\":[{\"name\":\"w\",\"of\":\"w\",\"kind\":\"m\",\"dtype\":\"f32\","
     "\"shape\":[],\"shards\":[{\"rank\":0,\"begin\":0,\"end\":1}]}]",
     "deployment: tensor 'w' is listed twice", TSR_CORRUPT},
    {"all_gather", "all_scatter",
     "deployment: collectives[0]: kind: expected a collective that sends, got 'all_scatter'",
     TSR_CORRUPT},
    {"\"entry\":\"train\",\"kind\"", "\"entry\":\"no\",\"kind\"",
     "deployment: a collective of 'w' in 'no': no such tensor or entry", TSR_CORRUPT},
    {"\"policy\":\"recompute\"", "\"policy\":\"some\"",
     "deployment: checkpoint: policy: expected none or recompute, got 'some'", TSR_CORRUPT},
    {"\"entry\":\"train\",\"bytesBefore\"", "\"entry\":\"no\",\"bytesBefore\"",
     "deployment: recomputation in 'no', which is not an entry", TSR_CORRUPT},
    {"\"stages\":[", "\"stages\":[{},", "deployment: pipeline: expected 1 stage, got 2",
     TSR_CORRUPT},
    {"\"after\":[],\"entries\":[", "\"entries\":7,\"after\":[",
     "deployment: pipeline.stages[0]: member 'entries': expected an array", TSR_CORRUPT},
    {"\"schedule\":\"none\"", "\"schedule\":\"1f1b\"", "deployment: offset", TSR_CORRUPT},
    {"\"producer\"", "\"news\":1,\"producer\"", "deployment: offset", TSR_CORRUPT},
    {"{", " {", "deployment: offset 0 of", TSR_CORRUPT},
};

/* ---- several virtual ranks ---- */

/* A batch axis of three virtual ranks, another axis with as many positions, and a collective
 * without a tensor. */
static char *encode_ranks(tsr_arena *arena, tsr_config *out_config, size_t *out_size) {
    static tsr_deployment_axis two[] = {{"model", 3, false}, {"data", 3, true}};
    static tsr_deployment_collective sums[] = {{"train", "all_reduce", "data", NULL, 3, 16},
                                               {"train", "reduce_scatter", "data", "w", 3, 24}};
    static tsr_config_tensor tensors[] = {
        {.name = "w", .role = TSR_ROLE_PARAM, .dtype = TSR_DTYPE_F32, .shape = {1, {3}}}};
    tsr_ctx ctx = {0};
    tsr_deployment d = {.axis_count = 2,
                        .axes = two,
                        .shard_count = 1,
                        .shards = shards,
                        .collective_count = 2,
                        .collectives = sums};
    char *json = NULL;
    *out_config = small_config();
    out_config->tensors = tensors;
    out_config->virtual_ranks = 3;
    cr_assert_eq(
        tsr_deployment_encode(&ctx, out_config, &d, TSR_PART_ALL, arena, &json, out_size).code,
        TSR_OK, "%s", ctx.error.text);
    return json;
}

Test(deployment, virtual_ranks_have_the_shards) {
    tsr_arena arena = {0};
    tsr_config config;
    tsr_deployment_manifest read;
    size_t size;
    char *json = encode_ranks(&arena, &config, &size);
    cr_assert(strstr(json, "{\"formatVersion\":\"1.3\""));
    cr_assert(strstr(json, "{\"name\":\"model\",\"size\":3,\"batch\":false},"
                           "{\"name\":\"data\",\"size\":3,\"batch\":true}"),
              "%s", json);
    cr_assert(strstr(json, "{\"rank\":1,\"position\":1,\"begin\":2,\"end\":3}"), "%s", json);
    cr_assert(strstr(json, "\"axis\":\"data\",\"positions\":3,\"bytes\":16}"), "%s", json);
    check_again(json, size, &read, &arena);
    cr_assert_eq(read.version_minor, 3);
    cr_assert(!read.deployment.axes[0].batch && read.deployment.axes[1].batch);
    cr_assert_null(read.deployment.collectives[0].tensor);
    tsr_arena_finish(&arena);
}

/* A manifest of version 1.1. That version treated each axis of V positions as a batch axis, and put
 * all shards on rank 0. */
Test(deployment, older_manifests_are_read) {
    tsr_arena arena = {0};
    tsr_config config;
    tsr_deployment_manifest read;
    size_t size;
    char *json = encode_ranks(&arena, &config, &size);
    json = changed(json, "\"1.3\"", "\"1.1\"", &arena);
    json = changed(json, "\"batch\":false", "\"batch\":true", &arena);
    json = changed(json, "\"rank\":1,\"position\"", "\"rank\":0,\"position\"", &arena);
    json = changed(json, "\"rank\":2,\"position\"", "\"rank\":0,\"position\"", &arena);
    check_again(json, strlen(json), &read, &arena);
    cr_assert_eq(read.version_minor, 1);
    tsr_arena_finish(&arena);
}

/* ---- pipelines ---- */

static char *encode_pipelines(tsr_arena *arena, size_t *out_size) {
    static const char *stages[] = {"embed", "middle", "middle", "head"};
    static tsr_deployment_pipeline pipelines[] = {
        {.schedule = "interleaved",
         .axis = "pp",
         .ranks = 2,
         .microbatches = 4,
         .chunks = 2,
         .stage_count = 4,
         .stages = stages},
        {.schedule = "1f1b", .function = "train", .ranks = 3, .microbatches = 8, .chunks = 1}};
    tsr_ctx ctx = {0};
    tsr_config config = small_config();
    const tsr_deployment d = {.pipeline_count = 2, .pipelines = pipelines};
    char *json = NULL;
    cr_assert_eq(
        tsr_deployment_encode(&ctx, &config, &d, TSR_PART_ALL, arena, &json, out_size).code, TSR_OK,
        "%s", ctx.error.text);
    return json;
}

Test(deployment, pipelines_come_back) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_deployment_manifest read;
    tsr_deployment whole = {0};
    size_t size, text_size;
    char *json = encode_pipelines(&arena, &size), *text = NULL;
    cr_assert(strstr(json, "{\"index\":3,\"rank\":1,\"after\":[2],\"function\":\"head\"}"));
    check_again(json, size, &read, &arena);
    cr_assert_eq(read.version_minor, 2);
    const tsr_deployment_pipeline *p = read.deployment.pipelines;
    cr_assert(read.deployment.pipeline_count == 2 && p[0].stage_count == 4 &&
              p[1].stage_count == 0);
    cr_assert(p[0].ranks == 2 && p[0].microbatches == 4 && p[0].chunks == 2 && !p[0].function);
    cr_assert_str_eq(p[0].axis, "pp");
    cr_assert_str_eq(p[0].stages[3], "head");
    cr_assert_str_eq(p[1].function, "train");
    cr_assert_null(p[1].axis);
    /* The form that is passed from one compiler stage to the next. */
    cr_assert_eq(tsr_deployment_write(&ctx, &read.deployment, &arena, &text, &text_size).code,
                 TSR_OK);
    cr_assert_eq(tsr_deployment_read(&ctx, text, text_size, &arena, &whole).code, TSR_OK);
    cr_assert(whole.pipeline_count == 2 && whole.pipelines[1].ranks == 3);
    tsr_arena_finish(&arena);
}

Test(deployment, damaged_pipelines_are_refused) {
    static const struct {
        const char *from, *to, *text;
    } wrong[] = {
        {"\"schedule\":\"1f1b\"", "\"schedule\":\"gpipe\"",
         "deployment: plans[1]: schedule: expected 1f1b or interleaved, got 'gpipe'"},
        {"\"ranks\":3", "\"ranks\":0", "deployment: plans[1]: ranks: expected 1 ... 262144, got 0"},
        {"\"microbatches\":8", "\"microbatches\":262145",
         "deployment: plans[1]: microbatches: expected 1 ... 262144, got 262145"},
        {"\"chunks\":2", "\"chunks\":3", "deployment: plans[0]: expected 6 stages or none, got 4"},
        {"\"rank\":1,\"after\":[0]", "\"rank\":0,\"after\":[0]",
         "deployment: plans[0]: stage 1: expected it on rank 1, after the previous stage"},
        {"\"after\":[1]", "\"after\":[0]",
         "deployment: plans[0]: stage 2: expected it on rank 0, after the previous stage"},
        {"\"after\":[2]", "\"after\":[]",
         "deployment: plans[0]: stage 3: expected it on rank 1, after the previous stage"},
        {"\"index\":2", "\"index\":7",
         "deployment: plans[0]: stage 2: expected it on rank 0, after the previous stage"},
        {"\"plans\":[", "\"plans\":7,\"x\":[",
         "deployment: pipeline: member 'plans': expected an array, got a number"},
        {"1.2", "1.1", "deployment: offset"},
    };
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_deployment_manifest read;
    size_t size;
    char *json = encode_pipelines(&arena, &size);
    for (size_t i = 0; i < TSR_COUNT(wrong); i++) {
        const char *text = changed(json, wrong[i].from, wrong[i].to, &arena);
        cr_assert_eq(tsr_deployment_decode(&ctx, text, strlen(text), &arena, &read).code,
                     TSR_CORRUPT, "%s", wrong[i].to);
        cr_assert(strncmp(ctx.error.text, wrong[i].text, strlen(wrong[i].text)) == 0,
                  "%s:\n  got  %s\n  want %s", wrong[i].to, ctx.error.text, wrong[i].text);
    }
    tsr_arena_finish(&arena);
}

Test(deployment, damaged_manifests_are_refused) {
    tsr_ctx ctx = {0};
    tsr_arena arena = {0};
    tsr_deployment_manifest read;
    size_t size;
    char *json = encode_example(&arena, &size);
    for (size_t i = 0; i < TSR_COUNT(damaged); i++) {
        const char *wrong = changed(json, damaged[i].from, damaged[i].to, &arena);
        tsr_code code = tsr_deployment_decode(&ctx, wrong, strlen(wrong), &arena, &read).code;
        cr_assert_eq(code, damaged[i].code, "%s: %s", damaged[i].to, ctx.error.text);
        cr_assert(strncmp(ctx.error.text, damaged[i].text, strlen(damaged[i].text)) == 0,
                  "%s:\n  got  %s\n  want %s", damaged[i].to, ctx.error.text, damaged[i].text);
    }
    cr_assert_eq(
        tsr_deployment_decode(&ctx, json, TSR_DEPLOYMENT_BYTES_MAX + 1, &arena, &read).code,
        TSR_CORRUPT);
    /* A later minor version: unknown members are ignored. */
    json = changed(json, "\"1.1\"", "\"1.9\",\"news\":[1]", &arena);
    cr_assert_eq(tsr_deployment_decode(&ctx, json, strlen(json), &arena, &read).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_eq(read.deployment.shard_count, 1);
    tsr_arena_finish(&arena);
}
