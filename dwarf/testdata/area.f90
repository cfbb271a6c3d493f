module shapes
  implicit none
contains
  pure real function area(r)
    real, intent(in) :: r
    area = 3.14159 * r * r
  end function area

  subroutine fill(a, n)
    integer, intent(in) :: n
    real, intent(out) :: a(n)
    integer :: i
    do i = 1, n
      a(i) = area(real(i)) + inside(i)
    end do
  contains
    real function inside(k)
      integer, intent(in) :: k
      inside = sqrt(real(k + n))
    end function inside
  end subroutine fill
end module shapes

program main
  use shapes
  implicit none
  real :: a(64)
  call fill(a, 64)
  print *, sum(a)
end program main
