/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections have no certificates: both sides refuse a handshake without the key. Tickets for
 * resumption are off, since no connection is resumed.
 */
#include "runtime/transport/tcp/tls.h"

#include "runtime/base/array.h"
#include "runtime/base/hash/hmac.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { IDENTITY_MAX = 64, APP_DATA = 0 /* the index of SSL_set_app_data */ };
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
static const char library_name[] = "libssl.so." TEXT(OPENSSL_SHLIB_VERSION);
static const unsigned char cipher_id[2] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */

struct tls_job {
    const void *key; /* borrowed */
    size_t key_bytes;
    SSL_CTX *context;
};

struct tls_link {
    SSL *tls;
    const void *key; /* borrowed; not used after the handshake */
    size_t key_bytes;
    int fd;
    bool is_caller;
    bool named;   /* a listener: the other side named a call to this rank */
    bool writing; /* the last write must be repeated */
    tls_call call;
};

/* ---- the library ---- */

static struct {
#define X(name) __typeof__(&(name)) name;
#include "runtime/transport/tcp/libssl.def"
#undef X
} ssl;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static BIO_METHOD *method; /* of the sockets; links use it until the process ends */

static tsr_result find_symbols(tsr_ctx *ctx) {
    static const struct {
        const char *name;
        void *to;
    } rows[] = {
#define X(name) {#name, &ssl.name},
#include "runtime/transport/tcp/libssl.def"
#undef X
    };
    void *library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!library) FAIL(ctx, TSR_MACHINE, "a job with a key needs TLS 1.3: %s", dlerror());
    for (size_t i = 0; i < TSR_COUNT(rows); i++) {
        void *symbol = dlsym(library, rows[i].name);
        if (!symbol)
            FAIL(ctx, TSR_MACHINE, "a job with a key needs TLS 1.3: %s has no %s", library_name,
                 rows[i].name);
        memcpy(rows[i].to, &symbol, sizeof symbol);
    }
    return TSR_SUCCESS;
}

/* ---- the socket ---- */

/* OpenSSL's own access to sockets raises SIGPIPE. */
static int socket_write(BIO *bio, const char *bytes, int size) {
    const tls_link *link = BIO_get_data(bio);
    ssize_t count = send(link->fd, bytes, (size_t)size, MSG_NOSIGNAL);
    BIO_clear_retry_flags(bio);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    return (int)count;
}

static int socket_read(BIO *bio, char *bytes, int size) {
    const tls_link *link = BIO_get_data(bio);
    ssize_t count = recv(link->fd, bytes, (size_t)size, 0);
    BIO_clear_retry_flags(bio);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    if (count == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return (int)count;
}

static long socket_control(BIO *bio, int command, long number, void *pointer) {
    (void)number, (void)pointer;
    if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *make_method(void) {
    BIO_METHOD *made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "rank");
    if (!made) return NULL;
    BIO_meth_set_write(made, socket_write);
    BIO_meth_set_read(made, socket_read);
    BIO_meth_set_ctrl(made, socket_control);
    return made;
}

/* Once for the process. */
static tsr_result open_library(tsr_ctx *ctx) {
    tsr_result result = TSR_SUCCESS;
    pthread_mutex_lock(&opening);
    if (!method) result = find_symbols(ctx);
    if (!method && !result.code) method = make_method();
    bool made = method != NULL;
    pthread_mutex_unlock(&opening);
    if (!result.code && !made) FAIL(ctx, TSR_MEMORY, "no memory for TLS");
    return result;
}

/* ---- the key of a call ---- */

static void name_call(const tls_call *call, char out_text[IDENTITY_MAX]) {
    snprintf(out_text, IDENTITY_MAX, "tessera-run 1: %" PRIu32 " to %" PRIu32 ", %" PRIu32,
             call->caller, call->listener, call->end);
}

static bool read_call(const unsigned char *identity, size_t size, tls_call *out_call) {
    char text[IDENTITY_MAX], again[IDENTITY_MAX];
    if (size >= sizeof text) return false;
    memcpy(text, identity, size);
    text[size] = 0;
    int read = sscanf(text, "tessera-run 1: %" SCNu32 " to %" SCNu32 ", %" SCNu32,
                      &out_call->caller, &out_call->listener, &out_call->end);
    if (read != 3) return false;
    name_call(out_call, again); /* every call has one spelling */
    return strcmp(text, again) == 0;
}

/* A session that stands for the key of the call; NULL: no memory. */
static SSL_SESSION *make_session(const tls_link *link, const char *identity) {
    tsr_ctx ctx = {0};
    tsr_digest key;
    if (tsr_hmac(&ctx, link->key, link->key_bytes, identity, strlen(identity), &key).code)
        return NULL;
    const SSL_CIPHER *cipher = ssl.SSL_CIPHER_find(link->tls, cipher_id);
    SSL_SESSION *session = ssl.SSL_SESSION_new();
    bool made = session && cipher &&
                ssl.SSL_SESSION_set1_master_key(session, key.bytes, sizeof key.bytes) &&
                ssl.SSL_SESSION_set_cipher(session, cipher) &&
                ssl.SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION);
    OPENSSL_cleanse(&key, sizeof key);
    if (made) return session;
    ssl.SSL_SESSION_free(session);
    return NULL;
}

/* The caller offers its key. OpenSSL reads the identity before the handshake ends, and owns the
 * session. */
static int use_key(SSL *tls, const EVP_MD *hash, const unsigned char **out_identity,
                   size_t *out_size, SSL_SESSION **out_session) {
    static _Thread_local char identity[IDENTITY_MAX];
    const tls_link *link = ssl.SSL_get_ex_data(tls, APP_DATA);
    (void)hash;
    name_call(&link->call, identity);
    *out_identity = (const unsigned char *)identity;
    *out_size = strlen(identity);
    *out_session = make_session(link, identity);
    return *out_session != NULL;
}

/* The listener finds the key of a call to it; no session: the handshake fails. */
static int find_key(SSL *tls, const unsigned char *identity, size_t size,
                    SSL_SESSION **out_session) {
    tls_link *link = ssl.SSL_get_ex_data(tls, APP_DATA);
    char text[IDENTITY_MAX];
    tls_call call;
    *out_session = NULL;
    if (!read_call(identity, size, &call) || call.listener != link->call.listener) return 1;
    link->named = true;
    link->call = call;
    name_call(&call, text);
    *out_session = make_session(link, text);
    return *out_session != NULL;
}

/* ---- jobs ---- */

static bool set_up(SSL_CTX *context) {
    ssl.SSL_CTX_set_options(context, SSL_OP_IGNORE_UNEXPECTED_EOF | SSL_OP_NO_RENEGOTIATION);
    ssl.SSL_CTX_set_psk_use_session_callback(context, use_key);
    ssl.SSL_CTX_set_psk_find_session_callback(context, find_key);
    return ssl.SSL_CTX_ctrl(context, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, NULL) == 1 &&
           ssl.SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256") == 1 &&
           ssl.SSL_CTX_set_num_tickets(context, 0) == 1 &&
           ssl.SSL_CTX_ctrl(context, SSL_CTRL_MODE,
                            SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER,
                            NULL) != 0;
}

tsr_result tsr_tls_open(tsr_ctx *ctx, const void *key, size_t key_bytes, tls_job **out_job) {
    TRY(ctx, open_library(ctx));
    tls_job *job = calloc(1, sizeof *job);
    if (!job) FAIL(ctx, TSR_MEMORY, "no memory for the connections of a job");
    *job = (tls_job){.key = key, .key_bytes = key_bytes};
    job->context = ssl.SSL_CTX_new(ssl.TLS_method());
    if (job->context && set_up(job->context)) {
        *out_job = job;
        return TSR_SUCCESS;
    }
    tsr_tls_close(job);
    FAIL(ctx, TSR_MEMORY, "no memory for the connections of a job, or TLS 1.3 is disabled");
}

void tsr_tls_close(tls_job *job) {
    if (!job) return;
    if (job->context) ssl.SSL_CTX_free(job->context);
    free(job);
}

/* ---- links ---- */

static tsr_result make_link(tsr_ctx *ctx, tls_job *job, const tls_link *as, tls_link **out_link) {
    tls_link *link = malloc(sizeof *link);
    SSL *tls = ssl.SSL_new(job->context);
    BIO *bio = BIO_new(method);
    if (!link || !tls || !bio || !ssl.SSL_set_ex_data(tls, APP_DATA, link)) {
        BIO_free(bio);
        if (tls) ssl.SSL_free(tls);
        free(link);
        FAIL(ctx, TSR_MEMORY, "no memory for a connection");
    }
    *link = *as;
    link->tls = tls;
    link->key = job->key;
    link->key_bytes = job->key_bytes;
    BIO_set_data(bio, link);
    BIO_set_init(bio, 1);
    ssl.SSL_set_bio(tls, bio, bio);
    if (as->is_caller) ssl.SSL_set_verify(tls, SSL_VERIFY_PEER, NULL); /* no certificate will do */
    *out_link = link;
    return TSR_SUCCESS;
}

tsr_result tsr_tls_call(tsr_ctx *ctx, tls_job *job, int fd, const tls_call *call,
                        tls_link **out_link) {
    const tls_link as = {.fd = fd, .is_caller = true, .call = *call};
    return make_link(ctx, job, &as, out_link);
}

tsr_result tsr_tls_listen(tsr_ctx *ctx, tls_job *job, int fd, uint32_t rank, tls_link **out_link) {
    const tls_link as = {.fd = fd, .call = {.listener = rank}};
    return make_link(ctx, job, &as, out_link);
}

tls_call tsr_tls_get_call(const tls_link *link) { return link->call; }

void tsr_tls_free(tls_link *link) {
    if (!link) return;
    ssl.SSL_free(link->tls);
    free(link);
}

/* Whether the last error of this thread is an alert, or that of another key. */
static tls_progress why_refused(const tls_link *link) {
    unsigned long error = ERR_peek_last_error();
    int reason = ERR_GET_REASON(error);
    bool alert = reason >= SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256;
    if (link->is_caller) return alert ? TLS_OTHER_KEY : TLS_NO_TLS;
    return link->named ? TLS_OTHER_KEY : TLS_NO_TLS;
}

tls_progress tsr_tls_advance(tls_link *link) {
    ERR_clear_error();
    errno = 0;
    int done = link->is_caller ? ssl.SSL_connect(link->tls) : ssl.SSL_accept(link->tls);
    /* A handshake with a certificate would also succeed. */
    if (done == 1) return ssl.SSL_session_reused(link->tls) ? TLS_DONE : TLS_NO_TLS;
    switch (ssl.SSL_get_error(link->tls, done)) {
    case SSL_ERROR_WANT_READ:
        return TLS_READS;
    case SSL_ERROR_WANT_WRITE:
        return TLS_WRITES;
    case SSL_ERROR_SSL:
        return why_refused(link);
    default:
        return TLS_CLOSED;
    }
}

/* ---- bytes ---- */

static ssize_t result_of(const tls_link *link, int count) {
    if (count > 0) return count;
    switch (ssl.SSL_get_error(link->tls, count)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        errno = EAGAIN;
        return -1;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        if (errno == 0) return 0;
        return -1;
    default:
        errno = EBADMSG;
        return -1;
    }
}

static int size_of(size_t size_bytes) { return size_bytes < INT_MAX ? (int)size_bytes : INT_MAX; }

ssize_t tsr_tls_send(tls_link *link, const void *bytes, size_t size_bytes) {
    ERR_clear_error();
    errno = 0;
    ssize_t count = result_of(link, ssl.SSL_write(link->tls, bytes, size_of(size_bytes)));
    link->writing = count < 0 && errno == EAGAIN;
    return count;
}

ssize_t tsr_tls_receive(tls_link *link, void *bytes, size_t size_bytes, bool peek) {
    ERR_clear_error();
    errno = 0;
    int size = size_of(size_bytes);
    int count = peek ? ssl.SSL_peek(link->tls, bytes, size) : ssl.SSL_read(link->tls, bytes, size);
    return result_of(link, count);
}

bool tsr_tls_is_writing(const tls_link *link) { return link->writing; }
