/* SPDX-License-Identifier: Apache-2.0 */
#include "manifests/deployment.h"
#include "runtime/base/json.h"
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
        "{\"formatVersion\":\"1.0\",\"name\":\"digits\",\"producer\":\"tessera 0.1.0\","
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

/* Strict JSON, with every tensor in exactly one list. */
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

/* ---- what passes did ---- */

static uint64_t begins[] = {0, 2, 3}, ends[] = {2, 3, 3};
static tsr_deployment_axis axes[] = {{"data", 3}, {"model", 1}};
static tsr_deployment_shard shards[] = {{"w", "data", 3, begins, ends}};
static tsr_deployment_collective collectives[] = {{"train", "all_gather", "data", "w", 3, 24}};
static tsr_deployment_recompute recomputes[] = {{"train", 1000, 400, 7, 12345}};
static const tsr_deployment example = {.axis_count = 2,
                                       .shard_count = 1,
                                       .collective_count = 1,
                                       .recompute_count = 1,
                                       .axes = axes,
                                       .shards = shards,
                                       .collectives = collectives,
                                       .recomputes = recomputes,
                                       .path = "m.json",
                                       .include = TSR_PART_MESH | TSR_PART_COLLECTIVES};
static const char example_json[] =
    "{\"include\":17,\"path\":\"m.json\",\"axes\":[{\"name\":\"data\",\"size\":3},{\"name\":"
    "\"model\","
    "\"size\":1}],\"shards\":[{\"tensor\":\"w\",\"axis\":\"data\",\"ends\":[2,3,3]}],"
    "\"collectives\":[{\"entry\":\"train\",\"kind\":\"all_gather\",\"axis\":\"data\",\"tensor\":"
    "\"w\","
    "\"positions\":3,\"bytes\":24}],\"recomputes\":[{\"entry\":\"train\",\"bytesBefore\":1000,"
    "\"bytesSaved\":400,\"ops\":7,\"operations\":12345}]}";

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

Test(deployment, spread_tensors_and_parts) {
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
    char *json;
    size_t size;
    cr_assert_eq(
        tsr_deployment_encode(&ctx, &config, &example, TSR_PART_ALL, &arena, &json, &size).code,
        TSR_OK, "%s", ctx.error.text);
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
    cr_assert_str_eq(ctx.error.text, "deployment: shards of 'v', which is no tensor of the config");
    other = (tsr_deployment_shard){"w", "data", 3, begins, short_ends};
    cr_assert_eq(
        tsr_deployment_encode(&ctx, &config, &changed, TSR_PART_ALL, &arena, &json, &size).code,
        TSR_COMPILE);
    cr_assert_str_eq(ctx.error.text, "deployment: shards of 'w' cover 2 elements; it has 3");
    tsr_arena_finish(&arena);
}
