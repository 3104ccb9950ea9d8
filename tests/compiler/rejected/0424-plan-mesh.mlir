// SPDX-License-Identifier: Apache-2.0
// run: -tsched-verify -tsched-apply
tsched.mesh.region "dp" of {dp = 0} {}
