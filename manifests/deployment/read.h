/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to manifests/: code shared by the two readers of a deployment, and by reading and
 * writing.
 */
#ifndef TSR_MANIFESTS_DEPLOYMENT_READ_H
#define TSR_MANIFESTS_DEPLOYMENT_READ_H

#include "manifests/deployment.h"
#include "manifests/json_read.h"

TSR_RESULT tsr_deployment_read_axis(tsr_json_reader *r, const struct cJSON *object,
                                    tsr_deployment_axis *axis);
TSR_RESULT tsr_deployment_read_collective(tsr_json_reader *r, const struct cJSON *object,
                                          tsr_deployment_collective *collective);
TSR_RESULT tsr_deployment_read_recompute(tsr_json_reader *r, const struct cJSON *object,
                                         tsr_deployment_recompute *recompute);

/* Writes member `key` of the object, with a comma before it; writes nothing if there are no
 * pipelines. */
void tsr_deployment_write_pipelines(const tsr_deployment *deployment, const char *key,
                                    tsr_buffer *out);
/* Reads no pipelines if the object has no such member. */
TSR_RESULT tsr_deployment_read_pipelines(tsr_json_reader *r, const struct cJSON *object,
                                         const char *key, tsr_deployment *deployment);

/* Checks that the entries and tensors named by the deployment exist, for the parts that are
 * present. */
TSR_RESULT tsr_deployment_check_names(tsr_ctx *ctx, const tsr_config *config,
                                      const tsr_deployment *deployment, unsigned parts,
                                      tsr_code code);

#endif
