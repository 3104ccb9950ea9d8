// SPDX-License-Identifier: Apache-2.0
// base64: TUzvUg0=
