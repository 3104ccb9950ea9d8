// SPDX-License-Identifier: Apache-2.0
// run: -tsched-verify -tsched-apply
tsched.pipeline @f {stages = 0}
