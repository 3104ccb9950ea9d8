/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP exchanges over libcurl, one at a time per connection. Private to this folder.
 *
 * A tsr_remote is the registry's state, shared by all threads; a tsr_http is the connection of one
 * thread. Only HTTP/1.1 is used: each thread has its own connection, so there is nothing to
 * multiplex.
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

/* The login of the registry: RFC 6750, RFC 7617, and the token flow of the distribution project
 * ("Token Authentication Specification"). */
typedef struct tsr_auth {
    char *header;        /* owned; "Authorization: …" or NULL */
    unsigned generation; /* number of the header, so that two refused threads renew it only once */
} tsr_auth;

typedef struct tsr_remote {
    tsr_registry_options options; /* the options with all defaults filled in */
    tsr_reference reference;
    char base[TSR_REFERENCE_HOST_MAX + 32]; /* "https://host:port" */
    char scope[4 * TSR_REFERENCE_NAME_MAX]; /* scope of the token */
    pthread_mutex_t mutex;                  /* protects the fields up to the atomics */
    tsr_auth auth;
    uint64_t progress_done, progress_total;
    const char *progress_what;
    struct timespec progress_last;
    atomic_uint_least64_t sent_bytes, received_bytes, request_count, retry_count;
    atomic_bool stop; /* another thread has failed */
} tsr_remote;

/* `push`: the scope includes writing; mount_names: the scope includes reading these. */
TSR_RESULT tsr_remote_init(tsr_ctx *ctx, tsr_remote *remote, const char *reference,
                           const tsr_registry_options *options, bool push,
                           const char *const *mount_names, size_t mount_count);
void tsr_remote_finish(tsr_remote *remote);
void tsr_remote_begin(tsr_remote *remote, const char *what, uint64_t total_bytes);
void tsr_remote_advance(tsr_remote *remote, int64_t bytes);
void tsr_remote_skip(tsr_remote *remote, uint64_t bytes); /* these bytes need not be transferred */
void tsr_remote_tick(tsr_remote *remote);                 /* called as time passes */
void tsr_remote_report(tsr_remote *remote, tsr_registry_report *report);

typedef struct tsr_http {
    tsr_remote *remote;
    void *easy; /* CURL; owned */
} tsr_http;
TSR_RESULT tsr_http_init(tsr_ctx *ctx, tsr_http *http, tsr_remote *remote);
void tsr_http_finish(tsr_http *http); /* accepts zeros */

/* Reads `size_bytes` of a request's body from `offset_bytes` on. */
typedef tsr_result (*tsr_http_source_fn)(tsr_ctx *ctx, void *user, uint64_t offset_bytes,
                                         void *bytes, size_t size_bytes);
/* Takes the bytes of a 200 or 206, in order. `first` is true at the first call for an answer. */
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
    uint64_t body_bytes_max; /* limit for a success without sink */
    bool foreign; /* a token server: no Authorization except the one in headers, no redirects */
    bool once;    /* no retry: the caller decides */
} tsr_http_request;

typedef struct tsr_http_response {
    long status;        /* 0: no response */
    tsr_buffer headers; /* owned; "name: value", each NUL-terminated, names in lower case */
    tsr_buffer body;    /* owned */
    bool retry; /* with an error, or a status above 399: the same request may succeed later */
} tsr_http_response;
void tsr_http_response_finish(tsr_http_response *response);
/* Returns the index-th value of a header, or NULL. */
const char *tsr_http_header(const tsr_http_response *response, const char *name, size_t index);

/* Sends the request, follows redirects, logs in if asked to, retries. Returns success for any
 * status; fails with TSR_NETWORK if there is no answer or it exceeds a limit. The Authorization
 * header is sent only to the registry's own origin. *response must be empty. */
TSR_RESULT tsr_http_call(tsr_ctx *ctx, tsr_http *http, const tsr_http_request *request,
                         tsr_http_response *response);
/* Fails with the error of a status: `what` is "GET of the manifest". */
TSR_RESULT tsr_http_refuse(tsr_ctx *ctx, const tsr_http *http, const tsr_http_response *response,
                           const char *what);

/* The attempts for one request. */
typedef struct tsr_retry {
    unsigned attempts;
} tsr_retry;
/* Waits, longer each time or as long as the server says; returns false if there were enough
 * attempts. */
bool tsr_retry_wait(tsr_http *http, tsr_retry *retry, const tsr_http_response *response);

/* Resolves a Location against the URL of its request. Fails with TSR_NETWORK unless the result is
 * http or https, without a user name, and not a change from https to http. */
TSR_RESULT tsr_url_resolve(tsr_ctx *ctx, const char *base, const char *location,
                           char out_url[static TSR_URL_MAX]);
bool tsr_url_same_origin(const char *a, const char *b);

/* Makes one exchange; a tsr_http_call makes one or more exchanges. */
TSR_RESULT tsr_http_send(tsr_ctx *ctx, tsr_http *http, const tsr_http_request *request,
                         const char *url, const char *authorization, tsr_http_response *response);

/* Defined in auth.c: answers a 401 by a new header; `generation` is the generation of the refused
 * header. Fails with TSR_DENIED without a login, or if the login is refused. */
TSR_RESULT tsr_auth_renew(tsr_ctx *ctx, tsr_http *http, const tsr_http_response *response,
                          unsigned generation);

#endif
