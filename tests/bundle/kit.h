/* SPDX-License-Identifier: Apache-2.0
 *
 * An in-memory layout directory. Its digests are right and its content is chosen by the test, so
 * hostile JSON and blobs pass the hash checks.
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
    uint64_t plain_size_bytes; /* for +zstd layers */
    tsr_digest plain_digest;
    const tsr_digest *digest; /* digest of many bytes; NULL: kit_link computes it */
} kit_layer;

typedef struct kit {
    kit_layer layers[KIT_LAYERS_MAX]; /* all but the chunk table */
    size_t layer_count;
    const void *table; /* NULL: the right table */
    size_t table_size_bytes;
    const char *target, *config;
    kit_text edit; /* the first `find` in it becomes `replace`; find NULL: the whole text */
    const char *find, *replace;
    size_t replace_size_bytes; /* 0: strlen */
    tsr_arena arena;
    ram_file files[KIT_FILES_MAX];
    size_t file_count;
    tsr_descriptor manifest; /* descriptor of the manifest in `files` */
    ram_io ram;
    tsr_ctx ctx;
} kit;

/* One target and two layers: IR (zstd of `plain`) and weights. */
void kit_init(kit *k);
void kit_finish(kit *k);
/* Returns a layer with the bytes as a zstd frame that the format accepts. */
kit_layer kit_compress(kit *k, const void *plain, size_t size_bytes);
/* Makes the files from the fields above, and sets the context's io table. */
void kit_link(kit *k);
/* kit_name, before kit_link of `k`: its index also names the manifest of the linked kit `other`.
 * kit_merge, after kit_link: adds the blobs of `other`. */
void kit_name(kit *k, const kit *other);
void kit_merge(kit *k, const kit *other);

#endif
