/* SPDX-License-Identifier: Apache-2.0
 *
 * Bundles in OCI registries: push and pull over HTTP(S), by the OCI distribution specification 1.1.
 * The functions start no process and read no environment variable.
 *
 * Data from a registry is untrusted: every byte is verified against the digest of the index, every
 * answer has a limit. Errors:
 *   TSR_USAGE    a malformed reference or option
 *   TSR_NETWORK  not reachable, too many broken connections, or a violation of the protocol
 *   TSR_DENIED   a login is required, or was refused
 *   TSR_ABSENT   no such repository, tag or digest
 *   TSR_CORRUPT  bytes that do not match their digest
 *   TSR_LOCKED   another pull writes the same file
 *   TSR_TARGET   a target that the bundle does not have
 *   TSR_IO, TSR_VERSION, TSR_SIGNATURE, TSR_MEMORY as elsewhere
 */
#ifndef TSR_REGISTRY_REGISTRY_H
#define TSR_REGISTRY_REGISTRY_H

#include "runtime/base/hash/hash.h"
#include "runtime/base/result.h"

/* Limits and defaults. */
enum {
    TSR_REGISTRY_RETRIES = 5, /* after a failure; the count restarts after progress */
    TSR_REGISTRY_RETRIES_MAX = 100,
    /* delay before the first retry; doubled each time, up to 30 s */
    TSR_REGISTRY_RETRY_DELAY_MS = 500,
    TSR_REGISTRY_RETRY_DELAY_MAX_MS = 30000,
    TSR_REGISTRY_RETRY_AFTER_MAX_S = 120, /* fail if a server asks for a longer delay */
    TSR_REGISTRY_TIMEOUT_S = 120,         /* time without a byte */
    TSR_REGISTRY_TIMEOUT_MAX_S = 86400,
    TSR_REGISTRY_JOBS = 4, /* connections at once */
    TSR_REGISTRY_JOBS_MAX = 32,
    TSR_REGISTRY_REDIRECTS_MAX = 10,
    TSR_REGISTRY_HEADER_BYTES_MAX = 64 * 1024,  /* headers of one answer */
    TSR_REGISTRY_MESSAGE_BYTES_MAX = 64 * 1024, /* body of an error, or answer of a token server */
    TSR_REGISTRY_AUTH_BYTES_MAX = 1 << 20,      /* size of a config.json */
    TSR_REGISTRY_SEGMENT_BYTES = 16 << 20,      /* bytes of a blob sent in one request */
    TSR_REGISTRY_SEGMENT_BYTES_MAX = 256 << 20, /* largest minimum that a registry may ask for */
    TSR_REGISTRY_SPAN_BYTES = 64 << 20,         /* bytes of a blob requested at once */
    TSR_REGISTRY_REFERRERS_MAX = 64,            /* maximum number of signatures examined */
};

typedef struct tsr_registry_progress {
    const char *what;     /* "send", "receive", "check" */
    uint64_t done_bytes;  /* bytes of the blobs done so far */
    uint64_t total_bytes; /* bytes to do in total */
} tsr_registry_progress;

typedef struct tsr_registry_options {
    size_t size_bytes; /* sizeof(tsr_registry_options) */
    /* PEM; NULL: the certificates of the system. Enables TLS on loopback */
    const char *ca_path;
    bool insecure;           /* TLS without verifying the certificate. Enables TLS on loopback */
    bool plain_http;         /* no TLS. Loopback registries never use TLS by default */
    const char *proxy_http;  /* URL of the proxy for http: and … */
    const char *proxy_https; /* … for https:; NULL: no proxy */
    const char *no_proxy;    /* hosts without a proxy, separated by commas; or NULL */
    /* files in the form of docker's config.json, first match wins; missing files are skipped */
    const char *const *auth_paths;
    size_t auth_path_count;
    /* 0: the defaults above; no_retries: no retry at all */
    unsigned retries, retry_delay_ms, timeout_s;
    bool no_retries;
    unsigned jobs; /* 0: the default above */
    /* Called occasionally, from any thread, one call at a time. May be NULL. */
    void (*progress)(void *user, const tsr_registry_progress *progress);
    void *user; /* borrowed */
} tsr_registry_options;

typedef struct tsr_registry_report {
    tsr_digest digest;                   /* digest of the index blob */
    uint64_t bundle_bytes;               /* size of the bundle's file */
    uint64_t sent_bytes, received_bytes; /* over the connections, headers included */
    /* blobs of the bundle; blobs that were already at the destination */
    uint64_t blob_count, present_blob_count;
    uint64_t mounted_blob_count; /* push: blobs mounted from another repository */
    uint64_t reused_bytes;       /* pull: copied from older bundles or from an interrupted pull */
    uint64_t request_count, retry_count;
    bool signature; /* a signature was pushed or pulled */
    bool unchanged; /* nothing had to be transferred */
    double seconds;
} tsr_registry_report;

typedef struct tsr_push_options {
    size_t size_bytes; /* sizeof(tsr_push_options) */
    /* repositories of the same registry that may contain the blobs */
    const char *const *mount_names;
    size_t mount_count;
    bool no_signature; /* do not send the signature next to the bundle */
} tsr_push_options;

/* Sends the bundle (file or directory) and its signature file, if there is one, as an OCI referrer.
 * Blobs that the registry has are not sent again; each is verified before it is sent. A slice is
 * accepted if the registry has the manifests of the other targets. options, push_options may be
 * NULL. */
TSR_RESULT tsr_registry_push(tsr_ctx *ctx, const char *path, const char *reference,
                             const tsr_registry_options *options,
                             const tsr_push_options *push_options, tsr_registry_report *out_report);

typedef struct tsr_pull_options {
    size_t size_bytes;          /* sizeof(tsr_pull_options) */
    const char *const *targets; /* "cpu:x86-64-v3": pull a slice with these; empty: every target */
    size_t target_count;
    const char *const *base_paths; /* older bundles whose chunks need not be fetched */
    size_t base_count;
    const char *const *keys; /* public keys, PEM: one must match the signature */
    size_t key_count;
    bool require_signature; /* refuse without a signature by one of the keys */
    bool no_signature;      /* do not look for a signature */
} tsr_pull_options;

/* Writes the canonical bytes of a bundle to `path`, whole or not at all, and its signature next to
 * it. `<path>.part` of an interrupted pull is used by the next one. Chunks in `path` itself or in a
 * base are copied from there. options, pull_options may be NULL. */
TSR_RESULT tsr_registry_pull(tsr_ctx *ctx, const char *reference, const char *path,
                             const tsr_registry_options *options,
                             const tsr_pull_options *pull_options, tsr_registry_report *out_report);

#endif
