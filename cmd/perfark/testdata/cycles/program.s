	.text
	.globl hot, cold, _start
	.type hot, @function
hot:
	xor %eax, %eax
1:	add $1, %rax
	cmp $100, %rax
	je 2f
	test $1, %al
	je 1b
	add $2, %rcx
	jmp 1b
2:	ret
	.size hot, .-hot
	.type cold, @function
cold:
	push %rbp
	call hot
	pop %rbp
	ret
	.size cold, .-cold
	.type _start, @function
_start:
	call cold
	jmp _start
	.size _start, .-_start
