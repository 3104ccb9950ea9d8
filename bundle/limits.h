/* SPDX-License-Identifier: Apache-2.0
 *
 * Every limit of the container in one place. Bytes of a bundle are untrusted: values above a limit
 * are refused before memory is allocated for them. The numbers are part of the format (FORMAT.md,
 * "Limits").
 */
#ifndef TSR_BUNDLE_LIMITS_H
#define TSR_BUNDLE_LIMITS_H

#include <stdint.h>

enum {
    TSR_TAR_BLOCK_BYTES = 512,
    TSR_BUNDLE_FILE_BYTES_MIN = 3 * TSR_TAR_BLOCK_BYTES, /* one header and the end of the archive */
    TSR_BUNDLE_ALIGN_BYTES = 64 * 1024,      /* raw blobs of at least this size are aligned to it */
    TSR_BUNDLE_PAX_BYTES_MAX = 128 * 1024,   /* records of one pax header */
    TSR_BUNDLE_TAIL_BYTES_MAX = 1024 * 1024, /* zeros after the end of a re-packed archive */
    TSR_BUNDLE_MEMBERS_MAX = 65536,          /* members of a tar, or files in blobs/sha256 */
    /* index.json, index, manifest: the same limit as in registries */
    TSR_BUNDLE_METADATA_BYTES_MAX = 4 << 20,
    TSR_BUNDLE_CONFIG_BYTES_MAX = 64 << 20,
    TSR_BUNDLE_TABLE_BYTES_MAX = 16 << 20,  /* chunk table: enough for 2 TiB */
    TSR_BUNDLE_MANIFESTS_MAX = 64,          /* manifests of the index */
    TSR_BUNDLE_LAYERS_MAX = 1000,           /* layers of one manifest, including its chunk table */
    TSR_BUNDLE_MEDIA_TYPE_MAX = 127,        /* characters */
    TSR_BUNDLE_TITLE_MAX = 255,             /* characters */
    TSR_BUNDLE_TARGET_MAX = 63,             /* characters */
    TSR_BUNDLE_WINDOW_LOG_MAX = 27,         /* window of a zstd frame: 128 MiB */
    TSR_BUNDLE_RATIO_MAX = 1024,            /* plain : stored bytes of a zstd blob, above … */
    TSR_BUNDLE_RATIO_FREE_BYTES = 16 << 20, /* … this many plain bytes */
    TSR_SIGNATURE_FILE_BYTES_MAX = 1 << 20,
    TSR_SIGNATURE_KEY_BYTES_MAX = 64 * 1024, /* size of a PEM file */
    TSR_SIGNATURE_KEYS_MAX = 64,             /* keys accepted at once */
};

#define TSR_BUNDLE_BLOB_BYTES_MAX (UINT64_C(4) << 30)    /* stored bytes of one blob */
#define TSR_BUNDLE_PLAIN_BYTES_MAX (UINT64_C(256) << 20) /* size of one decompressed blob */

#endif
