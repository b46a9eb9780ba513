# SPDX-License-Identifier: MIT
"""sbom - what a release is made of, as SPDX 2.3 in JSON: the packages, the source that they are built from, and the
libraries within them or loaded by them, each with its version and licence.

The same release gives the same bytes: its time is the commit's, its name has the hash of the source."""

# What the packages are built on, by Debian's name of it.
LICENCES = {
    "libc6": "LGPL-2.1-or-later",
    "libev-dev": "BSD-2-Clause OR GPL-2.0-or-later",
    "libhiredis-dev": "BSD-3-Clause",
    "libjansson-dev": "MIT",
    "libmicrohttpd-dev": "LGPL-2.1-or-later",
    "libncurses-dev": "X11-distribute-modifications-variant",
    "libssl-dev": "Apache-2.0",
}
COPYRIGHT = "2026 the redlatch authors"


def element(name, version, licence, sha256=None, purl=None, copyright_text="NOASSERTION"):
    entry = {"SPDXID": "SPDXRef-" + name.replace("_", "-").replace("~", "-").replace("+", "-"), "name": name,
             "versionInfo": version,
             "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": licence,
             "licenseDeclared": licence, "copyrightText": copyright_text}
    if sha256:
        entry["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256}]
    if purl:
        entry["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                                  "referenceLocator": purl}]
    return entry


def document(version, created, suite, source, debs, libraries, hiredis):
    """source: (name, SHA-256); debs: the same, several; libraries: (Debian's name, version), several; hiredis: the
    version of the one that comes with the source, and is built in unless libraries have one. created: ISO 8601, UTC."""
    own = "libhiredis-dev" not in dict(libraries)
    elements = [element(source[0], version, "MIT AND BSD-3-Clause", source[1], copyright_text=COPYRIGHT),
                element("hiredis", hiredis, "BSD-3-Clause", purl="pkg:github/redis/hiredis@v" + hiredis)]
    relations = [(elements[0], "CONTAINS", elements[1])]
    loaded = [element(name, at, LICENCES[name], purl="pkg:deb/debian/%s@%s?distro=%s" % (name, at, suite))
              for name, at in libraries]
    for name, sha256 in debs:
        built = not name.endswith("_all.deb")
        deb = element(name, name.split("_")[1], "MIT AND BSD-3-Clause" if own and built else "MIT", sha256,
                      copyright_text=COPYRIGHT)
        elements.append(deb)
        relations.append((deb, "GENERATED_FROM", elements[0]))
        relations += [(deb, "STATIC_LINK", elements[1])] if own and built else []
        relations += [(deb, "DEPENDS_ON", library) for library in loaded if built]
    about = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES",
              "relatedSpdxElement": entry["SPDXID"]} for entry in elements if entry is not elements[1]]
    return {
        "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT",
        "name": "redlatch-%s-%s" % (version, suite),
        "documentNamespace": "https://redlatch.example/spdx/redlatch-%s-%s-%s" % (version, suite, source[1]),
        "creationInfo": {"created": created, "creators": ["Tool: redlatch-tools-release"]},
        "packages": elements + loaded,
        "relationships": about + [{"spdxElementId": one["SPDXID"], "relationshipType": kind,
                                   "relatedSpdxElement": other["SPDXID"]} for one, kind, other in relations],
    }
