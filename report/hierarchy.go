package report

func (p *printer) hierarchy() {}
