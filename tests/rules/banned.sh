#!/bin/bash
#
# Functions that Wherry does not call, with what it calls instead.

. "$(dirname "$0")/tap.bash"

# function, what instead, where it is allowed (a pattern; - for nowhere)
banned='
strcpy     wh_buf_puts                     -
strncpy    wh_buf_put,snprintf             -
strcat     wh_buf_puts                     -
strncat    wh_buf_put                      -
stpcpy     wh_buf_puts                     -
sprintf    wh_buf_printf,snprintf          -
vsprintf   vsnprintf                       -
strtok     strcspn                         -
gets       fgets                           -
atoi       wh_parse_int                    -
atol       wh_parse_int                    -
atoll      wh_parse_int                    -
strtol     wh_parse_int                    -
strtoul    wh_parse_int                    -
strtoll    wh_parse_int                    src/base/text.c
strtoull   wh_parse_int                    -
scanf      wh_parse_int                    -
fscanf     wh_parse_int                    -
sscanf     wh_parse_int                    -
localtime  localtime_r                     -
gmtime     gmtime_r                        -
ctime      strftime                        -
asctime    strftime                        -
strerror   wh_fail_errno,wh_errno_text     -
strerrordesc_np  wh_errno_text             src/base/error.c
alloca     wh_arena_alloc                  -
rand       wh_random                       -
srand      wh_random                       -
random     wh_random                       -
getrandom  wh_random                       src/base/env.c
time       wh_now                          -
gettimeofday     wh_now                    -
clock_gettime    wh_now,wh_monotonic       src/base/env.c
sleep            wh_sleep                  -
usleep           wh_sleep                  -
nanosleep        wh_sleep                  -
clock_nanosleep  wh_sleep                  src/base/env.c
printf     wh_log                          src/cli/*
vprintf    wh_log                          src/cli/*
puts       wh_log                          src/cli/*
putchar    wh_log                          src/cli/*
perror     wh_fail_errno                   -
'

check() { # ROOT
	(
		cd "$1" || exit
		mapfile -t files < <(find src -name '*.[ch]' | LC_ALL=C sort)
		without_comments numbered strings "${files[@]}" | BANNED=$banned perl -ne '
			BEGIN {
				for (grep { /\S/ } split /\n/, $ENV{BANNED}) {
					my ($name, $instead, $where) = split;
					$where =~ s/\*/.*/;
					$where{$name} = qr/^$where$/;
					$instead{$name} = join " or ", split /,/, $instead;
				}
				$names = join "|", sort keys %instead;
			}
			my ($file, $line, $text) = split /:/, $_, 3;
			while ($text =~ /(?<![\w.])(?<!->)($names)\s*\(/g) {
				print "$file:$line: $1(): use $instead{$1}\n" if $file !~ $where{$1};
			}
			print "$file:$line: only cli/ writes to stderr: return an error, or wh_log\n"
				if $text =~ /\bstderr\b/ && $file !~ m{^src/cli/};
		'
	)
}

plant() { # FILE LINE
	rm -rf "$scratch/src"
	mkdir -p "$scratch/$(dirname "$1")"
	printf '%s\n' "$2" >"$scratch/$1"
}

# Values that are printed into the text of an event could be taken for other fields.
formatted_events() { # ROOT
	! grep -rn '"event=' "$1/src" --include='*.[ch]' | grep -v '/src/base/log\.[ch]:' ||
		echo 'an event is a name and typed fields: see base/log.h'
}

# A buffer that failed lacks a part of its text.
printed_buffers() { # ROOT
	! grep -rnE 'f?puts\(wh_buf_str\([^;]*(\)\)|stdout\));|fwrite\(wh_buf_str\(' "$1/src/cli" --include='*.c' |
		grep -vE '/src/cli/report\.c:|, stderr\)' ||
		echo 'print a buffer with wh_print_buf(): it fails if the buffer failed'
}

# A buffer that is made of one that failed lacks a part of its text too.
nested_buffers() { # ROOT
	find "$1/src" -name '*.c' -exec perl -0777 -ne '
		while (/\b(?:wh_buf_put\w*|wh_buf_json|wh_buf_printf|wh_put_\w+|put_\w+)(\((?:[^()]++|(?1))*\));/g) {
			print "$ARGV: use wh_buf_into(): $&\n" if $1 =~ /wh_buf_str\(/;
		}' {} +
}

silent 'no banned function is called' check "$source"
silent 'no buffer is written into another whose failure is ignored' nested_buffers "$source"
silent 'no buffer is printed whose failure nobody asks for' printed_buffers "$source"
silent 'no event is formatted by hand' formatted_events "$source"

plant src/cli/a.c '	(void)puts(wh_buf_str(&line));'
says 'a buffer that is printed otherwise is found' 'wh_print_buf()' printed_buffers "$scratch"
plant src/db/a.c '	wh_buf_puts(&text,
		wh_buf_str(&options));'
says 'a buffer that is written into another is found' 'wh_buf_into()' nested_buffers "$scratch"

n=0
while read -r name _; do
	[ -n "$name" ] || continue
	plant src/db/a.c "	x = $name (1);"
	[ -n "$(check "$scratch")" ] || result 'not ok' "$name is found"
	n=$((n + 1))
done <<<"$banned"
says "each of the $n is found" 'strcpy(): use wh_buf_puts' \
	eval 'plant src/db/a.c "strcpy(a, b);"; check "$scratch"'
plant src/base/env.c 'clock_gettime(0, &t); time(NULL);'
says 'the clock is read in one place' 'time(): use wh_now' check "$scratch"
plant src/base/env.c 'clock_gettime(0, &t); getrandom(a, 1, 0);'
silent 'that place may read it' check "$scratch"
plant src/cli/a.c 'printf("x"); fputs("x", stderr);'
silent 'the program prints' check "$scratch"
plant src/relay/a.c 'fputs("x", stderr);'
says 'the library does not' 'only cli/' check "$scratch"
plant src/db/a.c 'wh_random(env); env->random(ctx); e.sleep(1); snprintf(a); my_time(1);
/* time(0) */ x = "sleep(1)";'
silent 'members, longer names, comments and strings are no calls' check "$scratch"
plant src/db/a.c 'wh_log(env, 0, "db", "event=x why=%s", why);'
says 'an event that is formatted by hand is noticed' 'typed fields' formatted_events "$scratch"
finish
