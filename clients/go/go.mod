module wherry.dev/go

go 1.19
