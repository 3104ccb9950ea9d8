/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions of the oneDNN module other than matrix products. They return NULL if the library does
 * not support the case.
 */
#ifndef TSR_BENCH_DNNL_OPS_H
#define TSR_BENCH_DNNL_OPS_H

#include <stdint.h>

typedef struct dnnl_job dnnl_job;

typedef struct dnnl_conv {
    int64_t n, h, w, c, f, kh, kw, groups, stride, padding;
    const float *image, *filter; /* [N, H, W, C], [KH, KW, C / groups, F] */
    float *result;               /* [N, OH, OW, F] */
} dnnl_conv;

typedef struct dnnl_attention {
    int64_t heads, queries, keys, d; /* heads: total of all batches */
    const float *q, *k, *v;          /* [heads, ..., d] */
    float *result;
} dnnl_attention;

/* Image and result are in plain layout; the filter is in the primitive's preferred format. */
dnnl_job *dnnl_conv_prepare(const dnnl_conv *conv);
/* Runs matmul, softmax, matmul; the scores are not scaled. */
dnnl_job *dnnl_attention_prepare(const dnnl_attention *attention);
void dnnl_job_run(void *job);
void dnnl_job_release(dnnl_job *job);

#endif
