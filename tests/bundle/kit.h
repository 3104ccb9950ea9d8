/* SPDX-License-Identifier: Apache-2.0
 *
 * A layout directory in memory whose digests are all right and whose content is up to the test:
 * hostile JSON and blobs get past the hashes.
 */
#ifndef TSR_TESTS_KIT_H
#define TSR_TESTS_KIT_H

#include "bundle/layout.h"
#include "tests/bundle/ram_io.h"

enum { KIT_LAYERS_MAX = 4, KIT_FILES_MAX = 20 };

typedef enum kit_text { KIT_NONE, KIT_MARKER, KIT_ROOT, KIT_INDEX, KIT_MANIFEST } kit_text;

typedef struct kit_layer {
    const char *media_type, *title;
    const void *bytes; /* as stored */
    size_t size_bytes;
    uint64_t plain_size_bytes; /* of +zstd */
    tsr_digest plain_digest;
    const tsr_digest *digest; /* of the bytes, where they are many; NULL: made by kit_link */
} kit_layer;

typedef struct kit {
    kit_layer layers[KIT_LAYERS_MAX]; /* without the chunk table */
    size_t layer_count;
    const void *table; /* NULL: the right one */
    size_t table_size_bytes;
    const char *target, *config;
    kit_text edit; /* in this text the first `find` becomes `replace`; find NULL: the whole text */
    const char *find, *replace;
    size_t replace_size_bytes; /* 0: strlen */
    tsr_arena arena;
    ram_file files[KIT_FILES_MAX];
    size_t file_count;
    tsr_descriptor manifest; /* of the files */
    ram_io ram;
    tsr_ctx ctx;
} kit;

/* One target and two layers: IR (zstd of `plain`) and weights. */
void kit_init(kit *k);
void kit_finish(kit *k);
/* Zstd frame of the bytes as the format wants it, as a layer. */
kit_layer kit_compress(kit *k, const void *plain, size_t size_bytes);
/* Makes the files from all of the above and points the context at them. */
void kit_link(kit *k);
/* Before kit_link of `k`: its index also names the manifest of the linked kit `other`. After it:
 * the blobs of `other` are there too. */
void kit_name(kit *k, const kit *other);
void kit_merge(kit *k, const kit *other);

#endif
