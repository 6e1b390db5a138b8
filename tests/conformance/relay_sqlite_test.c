#include "relay_suite.h"

int main(void)
{
	static const relay_target targets[] = {
		{
			.name = "file",
			.url = "sqlite:",
			.in_file = true,
			.is = RELAY_OTHERS | RELAY_NUL | RELAY_KEYS | RELAY_LEASE |
			      RELAY_IN_ORDER,
			.a_nul = "'a' || char(0) || 'b'",
		},
		{
			.name = "memory",
			.url = "sqlite::memory:",
			.is = RELAY_ALONE | RELAY_NUL | RELAY_KEYS | RELAY_LEASE |
			      RELAY_IN_ORDER,
			.a_nul = "'a' || char(0) || 'b'",
		},
	};

	return relay_suite(targets, sizeof(targets) / sizeof(*targets));
}
