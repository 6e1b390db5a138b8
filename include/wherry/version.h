/* The version of the headers, and of the library that was loaded. */
#ifndef WHERRY_VERSION_H
#define WHERRY_VERSION_H

#include <wherry/export.h>

#define WHERRY_VERSION_MAJOR 0
#define WHERRY_VERSION_MINOR 1
#define WHERRY_VERSION_PATCH 0
#define WHERRY_VERSION "0.1.0"

/* major * 10000 + minor * 100 + patch; wherry_schema.min_program has the oldest allowed one. */
#define WHERRY_VERSION_NUM 100

WHERRY_BEGIN

/** Return the version of the library in use, such as "0.1.0".  The text is static. */
WHERRY_API const char *wherry_version(void);

/** Return WHERRY_VERSION_NUM of the library in use. */
WHERRY_API int wherry_version_num(void);

WHERRY_END

#endif
