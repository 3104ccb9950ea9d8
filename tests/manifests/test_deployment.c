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
    cr_assert_eq(tsr_deployment_encode(&ctx, &config, &arena, &json, &size).code, TSR_OK, "%s",
                 ctx.error.text);
    cr_assert_str_eq(json, want);
    cr_assert_eq(size, strlen(want));
    config.virtual_ranks = 3;
    cr_assert_eq(tsr_deployment_encode(&ctx, &config, &arena, &json, &size).code, TSR_COMPILE);
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
        cr_assert_eq(tsr_deployment_encode(&ctx, &config, &arena, &json, &size).code, TSR_OK, "%s",
                     ctx.error.text);
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
