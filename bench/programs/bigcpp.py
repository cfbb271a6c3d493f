# writes N translation units of self-written template code with many distinct instantiations
import sys
n=int(sys.argv[1]); out=sys.argv[2]
for u in range(n):
    with open(f"{out}/tu{u}.cpp","w") as f:
        f.write('#include <map>\n#include <string>\n#include <vector>\n#include <functional>\n#include <algorithm>\n#include <memory>\n#include <unordered_map>\n#include <iostream>\n#include <variant>\n')
        for k in range(16):
            f.write(f'''namespace u{u}n{k} {{ struct K{{int a; std::string s; bool operator<(const K&o)const{{return a<o.a||(a==o.a&&s<o.s);}}}};
struct V{{ std::vector<double> d; std::map<int,std::string> m; }}; using M=std::map<K,std::shared_ptr<V>>; using U=std::unordered_map<std::string,std::function<int(const K&)>>;
int f(int n){{ M m; U u; for(int i=0;i<n;i++){{ auto v=std::make_shared<V>(); v->d.assign(i%7+1,i*0.{k+1}); v->m[i]=std::to_string(i); m[K{{i%13,"x"+std::to_string(i)}}]=v; u["a"+std::to_string(i%5)]=[i](const K&k){{return k.a+i;}}; }}
 int s=0; for(auto&[k,v]:m){{ std::sort(v->d.begin(),v->d.end(),[](double a,double b){{return a>b;}}); for(auto&[n,g]:u) s+=g(k); s+=v->m.size(); }} return s; }} }}
''')
        f.write(f'int tu{u}(int n){{ int s=0; '+''.join(f's+=u{u}n{k}::f(n);' for k in range(16))+' return s; }\n')
with open(f"{out}/main.cpp","w") as f:
    f.write('#include <cstdio>\n#include <cstdlib>\n#include <ctime>\n'+''.join(f'int tu{u}(int);\n' for u in range(n)))
    f.write('int main(int c,char**v){double secs=c>1?atof(v[1]):5;struct timespec a,b;clock_gettime(CLOCK_MONOTONIC,&a);int s=0;do{'+''.join(f's+=tu{u}(6);' for u in range(n))+'clock_gettime(CLOCK_MONOTONIC,&b);}while((b.tv_sec-a.tv_sec)+(b.tv_nsec-a.tv_nsec)*1e-9<secs);printf("%d\\n",s);}\n')
