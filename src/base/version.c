#include <wherry/version.h>

const char *wherry_version(void)
{
	return WHERRY_VERSION;
}

int wherry_version_num(void)
{
	return WHERRY_VERSION_NUM;
}
