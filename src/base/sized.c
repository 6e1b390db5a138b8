#include "base/sized.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"

static bool is_zero(const char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i])
			return false;
	return true;
}

wherry_code wh_sized_read(void *out, size_t own, const void *given, size_t least,
			  const char *name, const char *macro, wherry_error *err)
{
	size_t size;

	memcpy(&size, given, sizeof(size));
	if (size < least)
		return wh_fail(err, WHERRY_INVALID,
			       "the size of the %s is %zu: set it, as %s does", name,
			       size, macro);
	if (size > own && !is_zero((const char *)given + own, size - own))
		return wh_fail(err, WHERRY_UNSUPPORTED,
			       "the %s has a member that this library does not know: the "
			       "program needs a newer libwherry",
			       name);
	memset(out, 0, own);
	memcpy(out, given, size < own ? size : own);
	memcpy(out, &own, sizeof(own));
	return WHERRY_OK;
}

void wh_sized_write(void *out, size_t room, const void *ours, size_t own)
{
	memset(out, 0, room);
	memcpy(out, ours, room < own ? room : own);
}
