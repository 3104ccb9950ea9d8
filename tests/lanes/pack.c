/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a bundle that runs the lanes of an AMD GPU on this CPU.
 *
 *     lane-pack IN.tsb TARGET IR.ll SIMULATOR.a OUT.tsb
 *     lane-pack --code IN.tsb TARGET IR.ll SIMULATOR.a FOLDER
 *
 * IN.tsb has code for TARGET (hip:gfx942), whose LLVM IR is IR.ll (tessera-aot build --dump=llvm).
 * OUT.tsb has the same program with the target cpu:x86-64-v3, whose code is the translated IR with
 * the simulator: so tessera-run runs it like any other program. With --code, the translated code
 * becomes a library in FOLDER, named by the digest of the code object: the HIP runtime of tests
 * (tests/runtime/fake_hip.c) runs it instead of the code object, on device hip.
 */
#include "bundle/bundle.h"
#include "compiler/target/link.h"
#include "manifests/config.h"
#include "runtime/base/hash/hash.h"
#include "runtime/base/io/io.h"
#include "tests/lanes/translate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LAYERS_MAX = 24, IR_MAX = 1 << 30 };

typedef struct packing {
    tsr_bundle *bundle;
    tsr_digest digest; /* of the code object */
    size_t target;
    tsr_arena arena;
    tsr_bundle_blob blobs[LAYERS_MAX];
    size_t blob_count;
} packing;

static TSR_RESULT find_target(tsr_ctx *ctx, packing *p, const char *name) {
    size_t count = tsr_bundle_get_target_count(p->bundle);
    while (p->target < count && strcmp(tsr_bundle_get_target_name(p->bundle, p->target), name) != 0)
        p->target++;
    if (p->target == count)
        FAIL(ctx, TSR_TARGET, "'%s' has no code for '%s'", tsr_bundle_get_path(p->bundle), name);
    return TSR_SUCCESS;
}

static TSR_RESULT read_layer(tsr_ctx *ctx, packing *p, const char *media_type, void **out_bytes,
                             size_t *out_size_bytes) {
    tsr_bundle_layer layer;
    TRY(ctx, tsr_bundle_need_layer(ctx, p->bundle, p->target, media_type, &layer));
    return tsr_bundle_read_layer(ctx, p->bundle, &layer, &p->arena, out_bytes, out_size_bytes);
}

/* Translates and links; *out_code: the shared object. */
static TSR_RESULT make_code(tsr_ctx *ctx, packing *p, const char *ir_path, const char *simulator,
                            const char *work, void **out_code, size_t *out_size_bytes) {
    void *bytes = NULL;
    size_t size = 0, json_size = 0;
    const char *json = NULL;
    char messages[400];
    tsr_config config;
    tsr_program program;
    tsr_fatbin launches;
    const char *object = tsr_arena_printf(&p->arena, "%s.o", work);
    const char *shared = tsr_arena_printf(&p->arena, "%s.so", work);
    tsr_bundle_get_config(p->bundle, p->target, &json, &json_size);
    TRY(ctx, tsr_config_decode(ctx, json, json_size, &p->arena, &config));
    TRY(ctx, read_layer(ctx, p, TSR_MEDIA_PROGRAM, &bytes, &size));
    TRY(ctx, tsr_program_decode(ctx, bytes, size, &config, &p->arena, &program));
    TRY(ctx, read_layer(ctx, p, TSR_MEDIA_FATBIN, &bytes, &size));
    TRY(ctx, tsr_fatbin_decode(ctx, bytes, size, &p->arena, &launches));
    p->digest = tsr_hash(launches.images[0].bytes, launches.images[0].size_bytes);
    TRY(ctx, tsr_io_read_file(ctx, ir_path, IR_MAX, &p->arena, &bytes, &size));
    TRY(ctx, lanes_translate(ctx, bytes, size, &program, &launches, object));
    const char *const args[] = {"ld.lld", "-shared", "-o", shared, object, simulator};
    bool linked = tsr_link_elf(6, args, sizeof messages, messages);
    unlink(object);
    if (!linked) FAIL(ctx, TSR_INTERNAL, "LLD: %s", messages);
    tsr_result result = tsr_io_read_file(ctx, shared, IR_MAX, &p->arena, out_code, out_size_bytes);
    unlink(shared);
    return result;
}

/* Takes over every layer but the code and the chunk table. */
static TSR_RESULT copy_layers(tsr_ctx *ctx, packing *p, void *code, size_t code_size) {
    size_t count = tsr_bundle_get_layer_count(p->bundle, p->target);
    for (size_t i = 0; i + 1 < count; i++) {
        tsr_bundle_layer layer = tsr_bundle_get_layer(p->bundle, p->target, i);
        void *bytes = code;
        size_t size = code_size;
        bool is_code = strcmp(layer.media_type, TSR_MEDIA_FATBIN) == 0;
        if (p->blob_count == LAYERS_MAX) FAIL(ctx, TSR_CORRUPT, "too many layers");
        if (!is_code)
            TRY(ctx, tsr_bundle_read_layer(ctx, p->bundle, &layer, &p->arena, &bytes, &size));
        p->blobs[p->blob_count++] =
            (tsr_bundle_blob){.media_type = is_code ? TSR_MEDIA_ELF : layer.media_type,
                              .title = is_code ? "kernels.so" : layer.title,
                              .bytes = bytes,
                              .size_bytes = size};
    }
    return TSR_SUCCESS;
}

static tsr_result pack(tsr_ctx *ctx, char **arguments, packing *p) {
    const char *config = NULL;
    size_t config_size = 0, code_size = 0;
    void *code = NULL;
    TRY(ctx, tsr_bundle_open(ctx, arguments[1], NULL, &p->bundle));
    TRY(ctx, find_target(ctx, p, arguments[2]));
    TRY(ctx, make_code(ctx, p, arguments[3], arguments[4], arguments[5], &code, &code_size));
    TRY(ctx, copy_layers(ctx, p, code, code_size));
    tsr_bundle_get_config(p->bundle, p->target, &config, &config_size);
    const tsr_bundle_target target = {
        .name = "cpu:x86-64-v3", .blobs = p->blobs, .blob_count = p->blob_count};
    const tsr_bundle_spec spec = {.size_bytes = sizeof spec,
                                  .config = config,
                                  .config_size_bytes = config_size,
                                  .targets = &target,
                                  .target_count = 1};
    return tsr_bundle_write(ctx, arguments[5], &spec);
}

static tsr_result write_code(tsr_ctx *ctx, char **arguments, packing *p) {
    char digest[TSR_DIGEST_HEX + 1];
    void *code = NULL;
    size_t size = 0;
    TRY(ctx, tsr_bundle_open(ctx, arguments[1], NULL, &p->bundle));
    TRY(ctx, find_target(ctx, p, arguments[2]));
    TRY(ctx, make_code(ctx, p, arguments[3], arguments[4],
                       tsr_arena_printf(&p->arena, "%s/new", arguments[5]), &code, &size));
    tsr_digest_format(&p->digest, digest);
    const char *path = tsr_arena_printf(&p->arena, "%s/%s.so", arguments[5], digest);
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(code, 1, size, file) == size;
    if (file && fclose(file)) written = false;
    if (!written) FAIL(ctx, TSR_IO, "cannot write '%s'", path);
    return TSR_SUCCESS;
}

int main(int count, char **arguments) {
    tsr_ctx ctx = {0};
    packing p = {0};
    bool as_code = count > 1 && strcmp(arguments[1], "--code") == 0;
    if (count - as_code != 6) {
        fprintf(stderr, "usage: lane-pack IN.tsb TARGET IR.ll SIMULATOR.a OUT.tsb\n"
                        "       lane-pack --code IN.tsb TARGET IR.ll SIMULATOR.a FOLDER\n");
        return 2;
    }
    tsr_result result = as_code ? write_code(&ctx, arguments + 1, &p) : pack(&ctx, arguments, &p);
    if (result.code) fprintf(stderr, "lane-pack: %s\n", ctx.error.text);
    tsr_bundle_close(&ctx, p.bundle);
    tsr_arena_finish(&p.arena);
    return result.code ? 1 : 0;
}
