/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/kernels/dnnl_ops.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

enum { STEPS_MAX = 3, MEMORIES_MAX = 8 };

struct dnnl_job {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_memory_t memories[MEMORIES_MAX];
    dnnl_primitive_desc_t descs[STEPS_MAX];
    dnnl_primitive_t steps[STEPS_MAX];
    dnnl_exec_arg_t arguments[STEPS_MAX][3];
    int argument_counts[STEPS_MAX], step_count, memory_count;
};

static bool ok(dnnl_status_t status) { return status == dnnl_success; }

EXPORT void dnnl_job_release(dnnl_job *job) {
    if (!job) return;
    for (int i = 0; i < STEPS_MAX; i++) {
        if (job->steps[i]) dnnl_primitive_destroy(job->steps[i]);
        if (job->descs[i]) dnnl_primitive_desc_destroy(job->descs[i]);
    }
    for (int i = 0; i < job->memory_count; i++) dnnl_memory_destroy(job->memories[i]);
    if (job->stream) dnnl_stream_destroy(job->stream);
    if (job->engine) dnnl_engine_destroy(job->engine);
    free(job);
}

EXPORT void dnnl_job_run(void *user) {
    dnnl_job *job = user;
    for (int i = 0; i < job->step_count; i++)
        dnnl_primitive_execute(job->steps[i], job->stream, job->argument_counts[i],
                               job->arguments[i]);
    dnnl_stream_wait(job->stream);
}

static dnnl_job *begin(void) {
    dnnl_job *job = calloc(1, sizeof *job);
    if (job && ok(dnnl_engine_create(&job->engine, dnnl_cpu, 0)) &&
        ok(dnnl_stream_create(&job->stream, job->engine, dnnl_stream_default_flags)))
        return job;
    dnnl_job_release(job);
    return NULL;
}

/* data NULL: the library allocates the memory. */
static dnnl_memory_t add_memory(dnnl_job *job, const dnnl_memory_desc_t *desc, const void *data) {
    dnnl_memory_t memory = NULL;
    void *handle = data ? (void *)data : DNNL_MEMORY_ALLOCATE;
    if (!ok(dnnl_memory_create(&memory, desc, job->engine, handle))) return NULL;
    job->memories[job->memory_count++] = memory;
    return memory;
}

static bool add_step(dnnl_job *job, const void *op_desc, dnnl_primitive_attr_t attr) {
    int i = job->step_count++;
    return ok(dnnl_primitive_desc_create(&job->descs[i], op_desc, attr, job->engine, NULL)) &&
           ok(dnnl_primitive_create(&job->steps[i], job->descs[i]));
}

static void give(dnnl_job *job, int step, int name, dnnl_memory_t memory) {
    job->arguments[step][job->argument_counts[step]++] = (dnnl_exec_arg_t){name, memory};
}

static bool reorder(dnnl_job *job, dnnl_memory_t from, const dnnl_memory_desc_t *from_desc,
                    dnnl_memory_t to, const dnnl_memory_desc_t *to_desc) {
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    bool done = ok(dnnl_reorder_primitive_desc_create(&desc, from_desc, job->engine, to_desc,
                                                      job->engine, NULL)) &&
                ok(dnnl_primitive_create(&primitive, desc)) &&
                ok(dnnl_primitive_execute(primitive, job->stream, 2, arguments)) &&
                ok(dnnl_stream_wait(job->stream));
    if (primitive) dnnl_primitive_destroy(primitive);
    if (desc) dnnl_primitive_desc_destroy(desc);
    return done;
}

static bool fill_conv(dnnl_job *job, const dnnl_conv *c) {
    int64_t oh = (c->h + 2 * c->padding - c->kh) / c->stride + 1;
    int64_t ow = (c->w + 2 * c->padding - c->kw) / c->stride + 1;
    dnnl_dims_t image = {c->n, c->c, c->h, c->w}, result = {c->n, c->f, oh, ow};
    dnnl_dims_t filter = {c->f, c->c, c->kh, c->kw};
    dnnl_dims_t grouped = {c->groups, c->f / c->groups, c->c / c->groups, c->kh, c->kw};
    /* Tessera's layout is [KH, KW, C / groups, groups * F / groups]. */
    dnnl_dims_t strides = {c->f / c->groups, 1, c->f, c->kw * (c->c / c->groups) * c->f,
                           (c->c / c->groups) * c->f};
    dnnl_dims_t window = {c->stride, c->stride}, low = {c->padding, c->padding};
    dnnl_memory_desc_t x, y, plain, any;
    bool many = c->groups > 1;
    dnnl_convolution_desc_t desc;
    dnnl_memory_desc_init_by_tag(&x, 4, image, dnnl_f32, dnnl_nhwc);
    dnnl_memory_desc_init_by_tag(&y, 4, result, dnnl_f32, dnnl_nhwc);
    if (many) {
        dnnl_memory_desc_init_by_strides(&plain, 5, grouped, dnnl_f32, strides);
        dnnl_memory_desc_init_by_tag(&any, 5, grouped, dnnl_f32, dnnl_format_tag_any);
    } else {
        dnnl_memory_desc_init_by_tag(&plain, 4, filter, dnnl_f32, dnnl_hwio);
        dnnl_memory_desc_init_by_tag(&any, 4, filter, dnnl_f32, dnnl_format_tag_any);
    }
    if (!ok(dnnl_convolution_forward_desc_init(&desc, dnnl_forward_inference,
                                               dnnl_convolution_direct, &x, &any, NULL, &y, window,
                                               low, low)) ||
        !add_step(job, &desc, NULL))
        return false;
    const dnnl_memory_desc_t *wanted =
        dnnl_primitive_desc_query_md(job->descs[0], dnnl_query_weights_md, 0);
    dnnl_memory_t from = add_memory(job, &plain, c->filter), to = add_memory(job, wanted, NULL);
    dnnl_memory_t in = add_memory(job, &x, c->image), out = add_memory(job, &y, c->result);
    if (!from || !to || !in || !out || !reorder(job, from, &plain, to, wanted)) return false;
    give(job, 0, DNNL_ARG_SRC, in);
    give(job, 0, DNNL_ARG_WEIGHTS, to);
    give(job, 0, DNNL_ARG_DST, out);
    return true;
}

EXPORT dnnl_job *dnnl_conv_prepare(const dnnl_conv *conv) {
    dnnl_job *job = begin();
    if (job && fill_conv(job, conv)) return job;
    dnnl_job_release(job);
    return NULL;
}

static bool fill_attention(dnnl_job *job, const dnnl_attention *a) {
    dnnl_dims_t q = {a->heads, a->queries, a->d}, k = {a->heads, a->d, a->keys};
    dnnl_dims_t v = {a->heads, a->keys, a->d}, s = {a->heads, a->queries, a->keys};
    dnnl_memory_desc_t qd, kd, vd, sd, od;
    dnnl_matmul_desc_t first, second;
    dnnl_softmax_v2_desc_t softmax;
    dnnl_memory_desc_init_by_tag(&qd, 3, q, dnnl_f32, dnnl_abc);
    dnnl_memory_desc_init_by_tag(&kd, 3, k, dnnl_f32, dnnl_acb); /* the transpose of [T, D] */
    dnnl_memory_desc_init_by_tag(&vd, 3, v, dnnl_f32, dnnl_abc);
    dnnl_memory_desc_init_by_tag(&sd, 3, s, dnnl_f32, dnnl_abc);
    dnnl_memory_desc_init_by_tag(&od, 3, q, dnnl_f32, dnnl_abc);
    if (!ok(dnnl_matmul_desc_init(&first, &qd, &kd, NULL, &sd)) || !add_step(job, &first, NULL) ||
        !ok(dnnl_softmax_v2_forward_desc_init(&softmax, dnnl_forward_inference,
                                              dnnl_softmax_accurate, &sd, &sd, 2)) ||
        !add_step(job, &softmax, NULL) ||
        !ok(dnnl_matmul_desc_init(&second, &sd, &vd, NULL, &od)) || !add_step(job, &second, NULL))
        return false;
    dnnl_memory_t qm = add_memory(job, &qd, a->q), km = add_memory(job, &kd, a->k);
    dnnl_memory_t vm = add_memory(job, &vd, a->v), sm = add_memory(job, &sd, NULL);
    dnnl_memory_t om = add_memory(job, &od, a->result);
    if (!qm || !km || !vm || !sm || !om) return false;
    give(job, 0, DNNL_ARG_SRC, qm);
    give(job, 0, DNNL_ARG_WEIGHTS, km);
    give(job, 0, DNNL_ARG_DST, sm);
    give(job, 1, DNNL_ARG_SRC, sm);
    give(job, 1, DNNL_ARG_DST, sm);
    give(job, 2, DNNL_ARG_SRC, sm);
    give(job, 2, DNNL_ARG_WEIGHTS, vm);
    give(job, 2, DNNL_ARG_DST, om);
    return true;
}

EXPORT dnnl_job *dnnl_attention_prepare(const dnnl_attention *attention) {
    dnnl_job *job = begin();
    if (job && fill_attention(job, attention)) return job;
    dnnl_job_release(job);
    return NULL;
}
