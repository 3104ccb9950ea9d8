/* SPDX-License-Identifier: Apache-2.0
 *
 * Bundles in OCI registries: push and pull over HTTP(S), by the OCI distribution specification 1.1.
 * No process is started, no environment variable is read.
 *
 * What comes from a registry is untrusted: every byte is verified against the digest of the index,
 * every answer has a limit. Errors:
 *   TSR_USAGE    a malformed reference or option
 *   TSR_NETWORK  not reachable, broken off once too often, or an answer against the protocol
 *   TSR_DENIED   a login is wanted, or refused
 *   TSR_ABSENT   no such repository, tag or digest
 *   TSR_CORRUPT  bytes that do not match their digest
 *   TSR_LOCKED   another pull writes the same file
 *   TSR_TARGET   a target that the bundle does not have
 *   TSR_IO, TSR_VERSION, TSR_SIGNATURE, TSR_MEMORY as elsewhere
 */
#ifndef TSR_REGISTRY_REGISTRY_H
#define TSR_REGISTRY_REGISTRY_H

#include "runtime/base/hash.h"
#include "runtime/base/result.h"

/* Limits and defaults. */
enum {
    TSR_REGISTRY_RETRIES = 5, /* after a failure; the count starts anew after progress */
    TSR_REGISTRY_RETRIES_MAX = 100,
    TSR_REGISTRY_RETRY_DELAY_MS = 500, /* of the first retry; doubled each time, up to 30 s */
    TSR_REGISTRY_RETRY_DELAY_MAX_MS = 30000,
    TSR_REGISTRY_RETRY_AFTER_MAX_S = 120, /* a server that asks for more is given up */
    TSR_REGISTRY_TIMEOUT_S = 120,         /* without a byte */
    TSR_REGISTRY_TIMEOUT_MAX_S = 86400,
    TSR_REGISTRY_JOBS = 4, /* connections at once */
    TSR_REGISTRY_JOBS_MAX = 32,
    TSR_REGISTRY_REDIRECTS_MAX = 10,
    TSR_REGISTRY_HEADER_BYTES_MAX = 64 * 1024,  /* of one answer */
    TSR_REGISTRY_MESSAGE_BYTES_MAX = 64 * 1024, /* body of an error, or of a token server */
    TSR_REGISTRY_AUTH_BYTES_MAX = 1 << 20,      /* of a config.json */
    TSR_REGISTRY_SEGMENT_BYTES = 16 << 20,      /* of a blob sent in one request */
    TSR_REGISTRY_SEGMENT_BYTES_MAX = 256 << 20, /* what a registry may ask for as the least */
    TSR_REGISTRY_SPAN_BYTES = 64 << 20,         /* of a blob asked for in one request */
    TSR_REGISTRY_REFERRERS_MAX = 64,            /* signatures looked at */
};

typedef struct tsr_registry_progress {
    const char *what;     /* "send", "receive", "check" */
    uint64_t done_bytes;  /* of the blobs */
    uint64_t total_bytes; /* what there is to do now */
} tsr_registry_progress;

typedef struct tsr_registry_options {
    size_t size_bytes;       /* sizeof(tsr_registry_options) */
    const char *ca_path;     /* PEM; NULL: the certificates of the system. Means TLS on loopback */
    bool insecure;           /* TLS without looking at the certificate. Means TLS on loopback */
    bool plain_http;         /* no TLS. A registry on loopback is spoken to so without */
    const char *proxy_http;  /* URL of the proxy for http: and … */
    const char *proxy_https; /* … for https:; NULL: none */
    const char *no_proxy;    /* hosts without, separated by commas; or NULL */
    const char *const *auth_paths; /* files in the form of docker's config.json, first match wins;
                                      one that is not there is passed over */
    size_t auth_path_count;
    unsigned retries, retry_delay_ms, timeout_s; /* 0: the defaults above; no_retries: none */
    bool no_retries;
    unsigned jobs; /* 0: the default above */
    /* Called now and then, from any thread, one at a time. May be NULL. */
    void (*progress)(void *user, const tsr_registry_progress *progress);
    void *user; /* borrowed */
} tsr_registry_options;

typedef struct tsr_registry_report {
    tsr_digest digest;                       /* of the index blob */
    uint64_t bundle_bytes;                   /* size of the bundle's file */
    uint64_t sent_bytes, received_bytes;     /* over the connections, headers included */
    uint64_t blob_count, present_blob_count; /* of the bundle; of these, already there */
    uint64_t mounted_blob_count;             /* push: taken from another repository */
    uint64_t reused_bytes; /* pull: taken from older bundles or from a broken-off pull */
    uint64_t request_count, retry_count;
    bool signature; /* one was pushed or pulled */
    bool unchanged; /* nothing had to be moved */
    double seconds;
} tsr_registry_report;

typedef struct tsr_push_options {
    size_t size_bytes;              /* sizeof(tsr_push_options) */
    const char *const *mount_names; /* repositories of the same registry that may have the blobs */
    size_t mount_count;
    bool no_signature; /* leave the signature beside the bundle where it is */
} tsr_push_options;

/* Sends the bundle (file or directory) and its signature file, if there is one, as an OCI referrer.
 * Blobs the registry has are not sent again; each is verified before it is sent. A slice is
 * accepted where the registry has the manifests of the other targets. options, push_options may be
 * NULL. */
TSR_RESULT tsr_registry_push(tsr_ctx *ctx, const char *path, const char *reference,
                             const tsr_registry_options *options,
                             const tsr_push_options *push_options, tsr_registry_report *out_report);

typedef struct tsr_pull_options {
    size_t size_bytes;          /* sizeof(tsr_pull_options) */
    const char *const *targets; /* "cpu:x86-64-v3": a slice with these; none: every target */
    size_t target_count;
    const char *const *base_paths; /* older bundles whose chunks need not be fetched */
    size_t base_count;
    const char *const *keys; /* public keys, PEM: a signature must be by one of them */
    size_t key_count;
    bool require_signature; /* refuse without a signature by one of the keys */
    bool no_signature;      /* do not ask for one */
} tsr_pull_options;

/* Writes the canonical bytes of a bundle to `path`, whole or not at all, and its signature beside
 * it. What an interrupted pull leaves in `<path>.part` is used by the next. Chunks that `path`
 * itself or a base holds are copied from there. options, pull_options may be NULL. */
TSR_RESULT tsr_registry_pull(tsr_ctx *ctx, const char *reference, const char *path,
                             const tsr_registry_options *options,
                             const tsr_pull_options *pull_options, tsr_registry_report *out_report);

#endif
