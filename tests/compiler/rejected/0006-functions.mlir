// SPDX-License-Identifier: Apache-2.0
// one fewer is accepted
// expand: 65537 func.func private @f{i}()
