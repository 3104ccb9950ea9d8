// SPDX-License-Identifier: Apache-2.0
// one fewer is accepted
// nest: 257 module{ }
{nest}
