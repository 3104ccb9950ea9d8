/* SPDX-License-Identifier: Apache-2.0
 *
 * One HTTP exchange after the other over libcurl. Private to this folder.
 *
 * A tsr_remote is the registry as all threads see it; a tsr_http is the connection of one thread.
 * HTTP/1.1 alone: each thread has its connection, there is nothing to multiplex.
 */
#ifndef TSR_REGISTRY_HTTP_H
#define TSR_REGISTRY_HTTP_H

#include "registry/reference.h"
#include "registry/registry.h"
#include "runtime/base/buffer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { TSR_URL_MAX = 8192, TSR_AUTHORIZATION_MAX = 16 * 1024 };

/* How the registry wants to be spoken to: RFC 6750, RFC 7617, and the token flow of the
 * distribution project ("Token Authentication Specification"). */
typedef struct tsr_auth {
    char *header;        /* owned; "Authorization: …" or NULL */
    unsigned generation; /* of the header: two threads that are refused renew it once */
} tsr_auth;

typedef struct tsr_remote {
    tsr_registry_options options; /* with the defaults filled in */
    tsr_reference reference;
    char base[TSR_REFERENCE_HOST_MAX + 32]; /* "https://host:port" */
    char scope[4 * TSR_REFERENCE_NAME_MAX]; /* of the token */
    pthread_mutex_t mutex;                  /* of what follows up to the atomics */
    tsr_auth auth;
    uint64_t progress_done, progress_total;
    const char *progress_what;
    struct timespec progress_last;
    atomic_uint_least64_t sent_bytes, received_bytes, request_count, retry_count;
    atomic_bool stop; /* another thread has failed */
} tsr_remote;

/* `push`: the scope asks for writing; mount_names: for reading these too. */
TSR_RESULT tsr_remote_init(tsr_ctx *ctx, tsr_remote *remote, const char *reference,
                           const tsr_registry_options *options, bool push,
                           const char *const *mount_names, size_t mount_count);
void tsr_remote_finish(tsr_remote *remote);
void tsr_remote_begin(tsr_remote *remote, const char *what, uint64_t total_bytes);
void tsr_remote_advance(tsr_remote *remote, int64_t bytes);
void tsr_remote_skip(tsr_remote *remote, uint64_t bytes); /* they need not be moved after all */
void tsr_remote_tick(tsr_remote *remote);                 /* time has passed */
void tsr_remote_report(tsr_remote *remote, tsr_registry_report *report);

typedef struct tsr_http {
    tsr_remote *remote;
    void *easy; /* CURL; owned */
} tsr_http;
TSR_RESULT tsr_http_init(tsr_ctx *ctx, tsr_http *http, tsr_remote *remote);
void tsr_http_finish(tsr_http *http); /* accepts zeros */

/* `size_bytes` from `offset_bytes` of a request's body. */
typedef tsr_result (*tsr_http_source_fn)(tsr_ctx *ctx, void *user, uint64_t offset_bytes,
                                         void *bytes, size_t size_bytes);
/* Bytes of a 200 or 206, in order. `first` at the first call of an answer. */
struct tsr_http_response;
typedef tsr_result (*tsr_http_sink_fn)(tsr_ctx *ctx, void *user,
                                       const struct tsr_http_response *response, bool first,
                                       const void *bytes, size_t size_bytes);

typedef struct tsr_http_request {
    const char *method; /* "GET" */
    const char *url;
    const char *headers[6];    /* "Accept: …"; ends with NULL */
    tsr_http_source_fn source; /* NULL: no body */
    void *source_user;
    uint64_t source_bytes;
    tsr_http_sink_fn sink; /* NULL: the body goes into the response */
    void *sink_user;
    uint64_t body_bytes_max; /* of a success without sink */
    bool foreign; /* a token server: no Authorization but that in headers, no redirects */
    bool once;    /* no retry here: the caller knows better */
} tsr_http_request;

typedef struct tsr_http_response {
    long status;        /* 0: none came */
    tsr_buffer headers; /* owned; "name: value" with a NUL each, names in lower case */
    tsr_buffer body;    /* owned */
    bool retry;         /* with an error, or a status above 399: the same again may succeed */
} tsr_http_response;
void tsr_http_response_finish(tsr_http_response *response);
/* The index-th value of a header, or NULL. */
const char *tsr_http_header(const tsr_http_response *response, const char *name, size_t index);

/* Sends, follows redirects, logs in where asked to, tries again. Any status is a success of this
 * function; TSR_NETWORK when no answer came or it breaks a limit. The Authorization header goes to
 * the registry's own origin only. *response is empty before. */
TSR_RESULT tsr_http_call(tsr_ctx *ctx, tsr_http *http, const tsr_http_request *request,
                         tsr_http_response *response);
/* The error that a status tells: `what` is "GET of the manifest". */
TSR_RESULT tsr_http_refuse(tsr_ctx *ctx, const tsr_http *http, const tsr_http_response *response,
                           const char *what);

/* Attempts at one thing. */
typedef struct tsr_retry {
    unsigned attempts;
} tsr_retry;
/* Waits, longer each time or as long as the server says; false when that was enough. */
bool tsr_retry_wait(tsr_http *http, tsr_retry *retry, const tsr_http_response *response);

/* Resolves a Location against the URL it came for. TSR_NETWORK unless http or https, without a user
 * name, and not from https to http. */
TSR_RESULT tsr_url_resolve(tsr_ctx *ctx, const char *base, const char *location,
                           char out_url[static TSR_URL_MAX]);
bool tsr_url_same_origin(const char *a, const char *b);

/* One exchange: what tsr_http_call is made of. */
TSR_RESULT tsr_http_send(tsr_ctx *ctx, tsr_http *http, const tsr_http_request *request,
                         const char *url, const char *authorization, tsr_http_response *response);

/* In auth.c: answers a 401 by a new header; `generation` is that of the header which was refused.
 * TSR_DENIED without a login, or when it is refused. */
TSR_RESULT tsr_auth_renew(tsr_ctx *ctx, tsr_http *http, const tsr_http_response *response,
                          unsigned generation);

#endif
