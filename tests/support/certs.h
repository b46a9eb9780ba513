/* SPDX-License-Identifier: MIT */
/* certs.h - certificates for one test, made by the openssl command in a folder that the test owns.
 *
 * NAME.crt and NAME.key in that folder, PEM, without a passphrase; what was there under that name is replaced, each
 * file at once. What cannot be made aborts the test with the reason.
 */
#ifndef TESTS_SUPPORT_CERTS_H
#define TESTS_SUPPORT_CERTS_H

void certs_make_ca(const char *dir, const char *name);

/* Signed by the CA of that name in the same folder. alt_names: "DNS:localhost,IP:127.0.0.1". days: how long it is valid
 * from now; -1: it was valid until yesterday. */
void certs_issue(const char *dir, const char *ca, const char *name, const char *alt_names, int days);

#endif
