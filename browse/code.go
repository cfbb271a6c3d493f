package browse

import tea "charm.land/bubbletea/v2"

func (m *Model) openCode(f Function) tea.Cmd     { return nil }
func (m *Model) openCallers(name string) tea.Cmd { return nil }
func (m *Model) openFlame() tea.Cmd              { return nil }
func (m *Model) openTimeline() tea.Cmd           { return nil }
