/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bundle/kit.h"

#include "bundle/bundle.h"

#include <inttypes.h>
#include <string.h>
#include <zstd.h>

kit_layer kit_compress(kit *k, const void *plain, size_t size_bytes) {
    size_t bound = ZSTD_compressBound(size_bytes);
    void *bytes = tsr_arena_alloc(&k->arena, bound, 1, 1);
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(zstd, ZSTD_c_checksumFlag, 1);
    size_t size = ZSTD_compress2(zstd, bytes, bound, plain, size_bytes);
    ZSTD_freeCCtx(zstd);
    TSR_ASSERT(!ZSTD_isError(size));
    return (kit_layer){.media_type = TSR_MEDIA_IR,
                       .bytes = bytes,
                       .size_bytes = size,
                       .plain_size_bytes = size_bytes,
                       .plain_digest = tsr_hash(plain, size_bytes)};
}

void kit_init(kit *k) {
    static const char plain[] = "module { }";
    static const char weights[40] = "weights";
    static unsigned char frame[64]; /* made once, since fuzzers call this for each input */
    static kit_layer ir;
    *k =
        (kit){.target = "cpu:x86-64-v3", .config = "{\"formatVersion\":\"1.0\"}", .layer_count = 2};
    if (!ir.bytes) {
        ir = kit_compress(k, plain, sizeof plain - 1);
        TSR_ASSERT(ir.size_bytes <= sizeof frame);
        memcpy(frame, ir.bytes, ir.size_bytes);
        ir.bytes = frame;
    }
    k->layers[0] = ir;
    k->layers[1] = (kit_layer){.media_type = TSR_MEDIA_WEIGHTS,
                               .title = "w.safetensors",
                               .bytes = weights,
                               .size_bytes = sizeof weights};
}

void kit_finish(kit *k) { tsr_arena_finish(&k->arena); }

static void add_file(kit *k, const char *name, const void *bytes, size_t size_bytes) {
    TSR_ASSERT(k->file_count < KIT_FILES_MAX);
    k->files[k->file_count++] = (ram_file){name, bytes, size_bytes};
}

static tsr_descriptor add_known_blob(kit *k, const char *media_type, const void *bytes,
                                     size_t size_bytes, const tsr_digest *digest) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_descriptor d = {.media_type = media_type, .digest = *digest, .size_bytes = size_bytes};
    tsr_digest_format(&d.digest, hex);
    add_file(k, tsr_arena_printf(&k->arena, TSR_BLOB_FOLDER "%s", hex), bytes, size_bytes);
    return d;
}

static tsr_descriptor add_blob(kit *k, const char *media_type, const void *bytes,
                               size_t size_bytes) {
    tsr_digest digest = tsr_hash(bytes, size_bytes);
    return add_known_blob(k, media_type, bytes, size_bytes, &digest);
}

/* Returns the text, edited if it is the one to edit; frees the buffer. */
static const char *edited(kit *k, kit_text which, tsr_buffer *text, size_t *out_size) {
    size_t find_at = 0, find_size = text->size_bytes;
    size_t replace_size =
        k->replace && !k->replace_size_bytes ? strlen(k->replace) : k->replace_size_bytes;
    tsr_buffer out = {0};
    if (k->edit != which) {
        tsr_buffer_append(&out, text->bytes, text->size_bytes);
    } else {
        if (k->find) {
            const char *at = strstr(text->bytes, k->find);
            TSR_ASSERT(at);
            find_at = (size_t)(at - text->bytes);
            find_size = strlen(k->find);
        }
        tsr_buffer_append(&out, text->bytes, find_at);
        tsr_buffer_append(&out, k->replace, replace_size);
        tsr_buffer_append(&out, text->bytes + find_at + find_size,
                          text->size_bytes - find_at - find_size);
    }
    *out_size = out.size_bytes;
    const char *copy = tsr_arena_memdup(&k->arena, out.bytes, out.size_bytes);
    tsr_buffer_finish(&out);
    tsr_buffer_finish(text);
    return copy;
}

static tsr_descriptor add_table(kit *k) {
    const kit_layer *layers = k->layers;
    if (k->table) return add_blob(k, TSR_MEDIA_CHUNKS, k->table, k->table_size_bytes);
    tsr_digest *digests = TSR_NEW(&k->arena, tsr_digest, KIT_LAYERS_MAX);
    for (size_t i = 0; i < k->layer_count; i++)
        digests[i] = tsr_hash_tree(layers[i].bytes, layers[i].size_bytes);
    return add_blob(k, TSR_MEDIA_CHUNKS, digests, k->layer_count * sizeof *digests);
}

void kit_link(kit *k) {
    tsr_descriptor layers[KIT_LAYERS_MAX + 1];
    tsr_manifest manifest = {.target = k->target, .layers = layers};
    tsr_layout layout = {.manifest_count = 1, .manifests = &manifest};
    tsr_buffer text = {0};
    size_t size;
    const char *bytes;
    for (size_t i = 0; i < k->layer_count; i++) {
        const kit_layer *from = &k->layers[i];
        layers[i] = from->digest ? add_known_blob(k, from->media_type, from->bytes,
                                                  from->size_bytes, from->digest)
                                 : add_blob(k, from->media_type, from->bytes, from->size_bytes);
        layers[i].title = from->title;
        layers[i].compressed = tsr_media_type_compressed(from->media_type);
        layers[i].plain_size_bytes = from->plain_size_bytes;
        layers[i].plain_digest = from->plain_digest;
    }
    layers[k->layer_count] = add_table(k);
    manifest.layer_count = k->layer_count + 1;
    manifest.config = add_blob(k, TSR_MEDIA_CONFIG, k->config, strlen(k->config));
    tsr_layout_format_manifest(&text, &manifest);
    bytes = edited(k, KIT_MANIFEST, &text, &size);
    manifest.self = k->manifest = add_blob(k, TSR_MEDIA_MANIFEST, bytes, size);
    tsr_layout_format_index(&text, &layout);
    bytes = edited(k, KIT_INDEX, &text, &size);
    layout.index = add_blob(k, TSR_MEDIA_INDEX, bytes, size);
    tsr_layout_format_root(&text, &layout.index);
    bytes = edited(k, KIT_ROOT, &text, &size);
    add_file(k, "index.json", bytes, size);
    tsr_buffer_text(&text, TSR_OCI_LAYOUT);
    bytes = edited(k, KIT_MARKER, &text, &size);
    add_file(k, "oci-layout", bytes, size);
    ram_io_init(&k->ram, true, k->files, k->file_count);
    k->ctx.io = &k->ram.io;
}

void kit_name(kit *k, const kit *other) {
    char hex[TSR_DIGEST_HEX + 1];
    tsr_digest_format(&other->manifest.digest, hex);
    k->edit = KIT_INDEX;
    k->find = "}}],";
    k->replace = tsr_arena_printf(&k->arena,
                                  "}},{\"mediaType\":\"" TSR_MEDIA_MANIFEST
                                  "\",\"digest\":\"sha256:%s\",\"size\":%" PRIu64
                                  ",\"annotations\":{\"" TSR_KEY_TARGET "\":\"%s\"}}],",
                                  hex, other->manifest.size_bytes, other->target);
}

void kit_merge(kit *k, const kit *other) {
    for (size_t i = 0; i < other->file_count; i++) {
        bool there = false;
        for (size_t j = 0; j < k->file_count; j++)
            there |= strcmp(other->files[i].name, k->files[j].name) == 0;
        if (!there)
            add_file(k, other->files[i].name, other->files[i].bytes, other->files[i].size_bytes);
    }
    k->ram.file_count = k->file_count;
}
